// optrush: the conductor. It runs experiments and writes reports; what trains is optrush-worker.
#include "cli/command_line.h"

int main(int argc, char** argv) { return optrush::run_command_line(argc, argv); }
