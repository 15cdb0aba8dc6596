#pragma once
#include <string_view>

namespace optrush::log {
/// Diagnostics of the controller on stderr, for --verbose. What every user should see is not logged but
/// printed.
void enable();
bool enabled();
void debug(std::string_view message);
}  // namespace optrush::log
