#pragma once

namespace optrush::testing {
/// The main function of a test program. The program has the tests of several files, which are separate tests
/// of ctest. `--file=muon_test.cpp,lion_test.cpp` runs only the cases of these files that match
/// `--gtest_filter`.
int run_test_program(int argc, char** argv);
}  // namespace optrush::testing
