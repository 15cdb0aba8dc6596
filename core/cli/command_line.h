#pragma once

namespace optrush {
/// The whole program: 0 all is well, 1 a run or something else failed, 2 bad usage, 128 + N ended by signal
/// N.
int run_command_line(int argc, char** argv);
}  // namespace optrush
