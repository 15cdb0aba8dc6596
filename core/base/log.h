#pragma once
#include <string_view>

namespace optrush::log {
/// Diagnostics of the controller on stderr, for --verbose. Messages for every user are printed, not logged.
void enable();
bool enabled();
void debug(std::string_view message);
}  // namespace optrush::log
