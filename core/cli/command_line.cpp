#include "cli/commands.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/contains.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "base/text.h"
#include "build_info.h"
#include "launch/run/channel.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "machine/torch_folder.h"
#include "process/orphans.h"
#include "process/terminal.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;

/// Workers of a wheel search torch in their site-packages. If it is elsewhere, LD_LIBRARY_PATH gets it.
void let_workers_find_torch() {
  const Installation here = Installation::of_this_program();
  if (!here.installed || !here.torch.empty()) return;  // their run path contains it
  const fs::path torch = torch_folder();
  std::error_code missing;
  if (torch.empty() || fs::equivalent(torch, here.root.parent_path() / "torch", missing)) return;
  std::vector<std::string> folders = {torch / "lib"};
  for (const auto& folder : cuda_library_folders(torch)) folders.push_back(folder);
  if (std::string given = environment_variable("LD_LIBRARY_PATH"); !given.empty())
    folders.push_back(std::move(given));
  ::setenv("LD_LIBRARY_PATH", join(folders, ":").c_str(), /*overwrite=*/1);
}

void print_error(ErrorCode code, const std::string& text) {
  const Terminal terminal = Terminal::of(2);
  terminal.write("optrush: " + terminal.paint(Colour::red, "error[" + std::string(to_string(code)) + "]:") +
                 " " + printable_lines(text) + "\n");
}

/// The given subcommand, or the program.
const CLI::App& active(const CLI::App& app) {
  const auto given = app.get_subcommands();
  return given.empty() ? app : *given.front();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  return texts_of(app.get_subcommands({}), [](const CLI::App* command) { return command->get_name(); });
}

/// Rewrites CLI11's "Could not convert: --within = 3%" with the option's type; other texts stay.
std::string not_a_number(const CLI::App& command, const std::string& text) {
  constexpr std::string_view kStart = "Could not convert: ", kEquals = " = ";
  const size_t equals = text.find(kEquals);
  if (!text.starts_with(kStart) || equals == std::string::npos) return text;
  const std::string name = text.substr(kStart.size(), equals - kStart.size());
  const auto* option = command.get_option_no_throw(name);
  const bool whole = option != nullptr && option->get_type_name().find("INT") != std::string::npos;
  return name + " must be a " + (whole ? "whole number" : "number") + ", but is '" +
         text.substr(equals + kEquals.size()) + "'";
}

/// CLI11's error in the words of this program, with the nearest name for an unknown one.
UsageError explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = active(app);
  const bool top = &command == &app;
  const std::string name = top ? "optrush" : "optrush " + command.get_name();
  const std::string help = "see " + name + " --help";
  const auto unknown = app.remaining(true);
  if (unknown.empty()) {
    std::string text = not_a_number(command, error.what());
    if (const size_t colon = text.find(": must be "); colon != std::string::npos) text.erase(colon, 1);
    return UsageError(text, help);
  }
  std::string word = unknown.front();
  if (!word.starts_with('-'))
    return top ? UsageError(ErrorCode::unknown_name, "there is no command '" + word + "'",
                            did_you_mean(word, command_names(app)))
               : UsageError("'" + word + "' is an unexpected argument of " + name, help);
  word = word.substr(0, word.find('='));
  const std::vector<std::string> options = option_names(command);
  if (const std::string present(present_name(word)); contains(options, present))
    return UsageError(ErrorCode::unknown_name,
                      "the option '" + word + "' of " + name + " is now called '" + present + "'", help);
  const std::string best = nearest(word, options);
  return UsageError(ErrorCode::unknown_name, name + " has no option '" + word + "'",
                    best.empty() ? help : "did you mean '" + best + "'? Or " + help);
}

int parse_and_run(CLI::App& app, int argc, char** argv, const int& code) {
  try {
    app.parse(argc, argv);
    return code;
  } catch (const CLI::Success& e) {  // --help, --version
    app.exit(e);
    return kOk;
  } catch (const CLI::ParseError& e) {
    throw explain(app, e);
  }
}
}  // namespace

int run_command_line(int argc, char** argv, std::initializer_list<AddCommand> of_tools) {
  CLI::App app("Measures the speed and memory effect of each training optimization.", "optrush");
  app.set_version_flag("--version", "optrush " OPTRUSH_VERSION);
  app.require_subcommand(0, 1);
  app.footer("Help on a command: optrush COMMAND --help. A first experiment: optrush run @quickstart");
  int code = kOk;
  add_run_command(app, code, take_given_secret());
  add_report_command(app, code);
  add_compare_command(app, code);
  add_experiments_command(app, code);
  for (const AddCommand add : of_tools) add(app, code);
  add_worker_commands(app, code);
  if (argc < 2) {
    std::cerr << app.help();
    return kBadUsage;
  }
  adopt_orphans();
  try {
    let_workers_find_torch();
    const int end = parse_and_run(app, argc, argv, code);
    if (!std::cout.flush())
      throw Error(ErrorCode::file_access, "can't write to the standard output",
                  "check the disk space, and that the reading program still runs");
    return end;
  } catch (const std::filesystem::filesystem_error& e) {
    print_error(ErrorCode::file_access, "'" + e.path1().string() + "': " + e.code().message());
    return kSomethingFailed;
  } catch (const std::bad_alloc&) {
    print_error(ErrorCode::out_of_memory, "out of memory");
    return kSomethingFailed;
  } catch (const std::exception& e) {
    const auto* own = dynamic_cast<const Error*>(&e);
    print_error(own != nullptr ? own->code() : ErrorCode::internal, e.what());
    return exit_code_of(e);
  }
}

int exit_code_of(const std::exception& error) {
  if (const auto* interrupted = dynamic_cast<const Interrupted*>(&error)) return 128 + interrupted->signal();
  return dynamic_cast<const UsageError*>(&error) != nullptr ? kBadUsage : kSomethingFailed;
}
}  // namespace optrush
