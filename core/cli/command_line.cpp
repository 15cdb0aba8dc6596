#include "cli/commands.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/command_line.h"
#include "base/printable.h"
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
                 " " + printable_lines(as_typed(text)) + "\n");
}
}  // namespace

int run_command_line(int argc, char** argv, std::initializer_list<AddCommand> of_tools) {
  CLI::App app("Measures the speed and memory effect of each training optimization.", "optrush");
  app.set_version_flag("--version", "optrush " OPTRUSH_VERSION);
  app.require_subcommand(0, 1);
  app.footer(
      as_typed("Help on a command: optrush COMMAND --help. A first experiment: optrush run @quickstart"));
  int code = kOk;
  add_run_command(app, code, take_given_secret());
  add_report_command(app, code);
  add_compare_command(app, code);
  for (const AddCommand add : of_tools) add(app, code);
  add_worker_commands(app, code);
  if (argc < 2) {
    std::cerr << app.help();
    return kBadUsage;
  }
  adopt_orphans();
  try {
    let_workers_find_torch();
    parse_command_line(app, argc, argv);
    if (!std::cout.flush())
      throw Error(ErrorCode::file_access, "can't write to the standard output",
                  "check the disk space, and that the reading program still runs");
    return code;
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
