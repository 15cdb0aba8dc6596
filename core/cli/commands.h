#pragma once
#include "optrush/error.h"

namespace CLI {
class App;
}

namespace optrush {
// Each adds one subcommand. When that is given, it does its work while the command line is parsed and leaves
// the program's exit code in `code`; Errors are thrown.
void add_run_command(CLI::App&, int& code);
void add_report_command(CLI::App&, int& code);
void add_compare_command(CLI::App&, int& code);
void add_check_command(CLI::App&, int& code);
void add_plugins_command(CLI::App&, int& code);
void add_new_plugin_command(CLI::App&, int& code);
void add_experiments_command(CLI::App&, int& code);
void add_sdk_command(CLI::App&, int& code);
void add_stubs_command(CLI::App&, int& code);
/// Python takes this process's place.
void add_tokenize_command(CLI::App&, int& code);
/// worker, forward and doctor: optrush-worker takes this process's place.
void add_worker_commands(CLI::App&, int& code);

inline constexpr int kOk = 0, kSomethingFailed = 1, kBadUsage = 2;
/// Of a program that this ends: 128 and the signal of an Interrupted, bad usage, or something failed.
int exit_code_of(const std::exception&);
}  // namespace optrush
