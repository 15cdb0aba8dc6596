#pragma once
#include <functional>
#include <string>

namespace optrush {
/// Makes a call of a collective, or waits for it. If another rank ended or is late, throws a PeerError with
/// `what`, the description of the collective. Any other error keeps its class, so that out of memory stays
/// out of memory and a wrong tensor is an error of the plugin that gave it.
void call_collective(const std::string& what, const std::function<void()>& call);
}  // namespace optrush
