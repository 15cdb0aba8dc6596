#pragma once
#include <string>

namespace optrush {
/// The name of this machine; "" where it has none.
std::string host_name();
}  // namespace optrush
