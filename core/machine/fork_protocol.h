#pragma once
#include <cstddef>
#include <string_view>

// `optrush-worker fork-server` reads JSON objects, one a line, from its standard input, which is a socket:
//   {"arguments": ["optrush-worker", "plan", ...], "log": FILE, "environment": {NAME: VALUE}}
// For each it starts a process that is a child of the server's parent, and answers {"pid": NUMBER}, or
// {"refused": REASON}. The process sets these environment variables, executes the command line and appends
// its output to the log. Once it may begin, the server answers {"begun": true}.
namespace optrush {
/// Exit code of a process that ended before it executed anything.
inline constexpr int kNotBegun = 125;
/// Length of the server's last argument. Each fork writes its command line over it, for `ps` and `top`.
inline constexpr size_t kCommandLineRoom = 2048;
/// Whether a process may set this variable after its libraries are loaded, because they do not read it.
inline bool is_read_late(std::string_view variable) { return variable.starts_with("OPTRUSH_"); }
}  // namespace optrush
