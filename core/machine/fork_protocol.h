#pragma once

// `optrush-worker fork-server` reads JSON objects, one a line, from its standard input, which is a socket:
//   {"arguments": ["optrush-worker", "plan", ...], "log": FILE}
// For each it starts a process that is a child of the server's parent, and answers {"pid": NUMBER}, or
// {"refused": REASON}. The process executes the command line and appends its output to the log.
namespace optrush {
/// Exit code of a process that ended before it executed anything.
inline constexpr int kNotBegun = 125;
}  // namespace optrush
