#pragma once
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/command_line.h"
#include "optrush/error.h"
#include "process/process.h"

namespace optrush {
struct Installation;

/// A signal ended the work early. Finished work is kept.
class Interrupted : public Error {
 public:
  Interrupted(int signal, std::string cure)
      : Error(ErrorCode::interrupted, "interrupted by " + describe_signal(signal), std::move(cure)),
        signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

// Each adds a subcommand (AddCommand). Errors are thrown.
/// `given_secret`: the value of OPTRUSH_JOB_SECRET
void add_run_command(CLI::App&, int& code, const std::string& given_secret);
void add_report_command(CLI::App&, int& code);
void add_compare_command(CLI::App&, int& code);
/// worker and doctor: replace this process by optrush-worker.
void add_worker_commands(CLI::App&, int& code);
/// A command that optrush-worker has, too, and that replaces this process by it.
void add_command_of_worker(CLI::App&, const std::string& name, const std::string& description);

/// Replaces this process by a program with this argv. Throws an Error with this remedy if it can't start.
[[noreturn]] void become(const std::string& program, std::vector<std::string> words, const std::string& cure);
/// The names of the shipped experiments: NAME.lua in Installation::experiments, run as `optrush run @NAME`.
std::vector<std::string> shipped_experiments(const Installation&);
/// The script for an argument of `run`: "@quickstart" or a path. A UsageError names the nearest experiment.
std::filesystem::path script_named(const std::string& argument, const Installation&);

/// The whole program with the additional commands of tools. Exit codes: kOk, ..., or 128 + N for signal N.
int run_command_line(int argc, char** argv, std::initializer_list<AddCommand> of_tools);

inline constexpr int kOk = 0, kSomethingFailed = 1, kBadUsage = 2;
/// The exit code for an exception: 128 and the signal of an Interrupted, wrong usage, or failure.
int exit_code_of(const std::exception&);
}  // namespace optrush
