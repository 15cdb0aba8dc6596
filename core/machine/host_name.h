#pragma once
#include <string>

namespace optrush {
/// The name of this machine; "" if it has none.
std::string host_name();
}  // namespace optrush
