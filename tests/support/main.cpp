#include "support/test_program.h"

int main(int argc, char** argv) { return optrush::testing::run_test_program(argc, argv); }
