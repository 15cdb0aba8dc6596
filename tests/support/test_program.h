#pragma once

namespace optrush::testing {
/// What the main function of a test program does. The program has the tests of several files, which are
/// separate tests of ctest: `--file=muon_test.cpp,lion_test.cpp` runs the cases of these files alone, of
/// those that `--gtest_filter` names.
int run_test_program(int argc, char** argv);
}  // namespace optrush::testing
