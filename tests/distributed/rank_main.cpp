#include "rank_pool.h"

int main(int argc, char** argv) { return optrush::testing::main_of_ranks(argc, argv); }
