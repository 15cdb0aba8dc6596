#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "report/compare.h"

namespace optrush {
void add_compare_command(CLI::App& app, int& code) {
  auto folders = std::make_shared<std::pair<std::filesystem::path, std::filesystem::path>>();
  auto* command = app.add_subcommand("compare", "two reports side by side: machines, commits");
  command->add_option("A", folders->first, "reports/EXPERIMENT/LABEL")->required();
  command->add_option("B", folders->second, "the same of another; differences are B over A")->required();
  command->callback([folders, &code] {
    std::cout << compare_reports(folders->first, folders->second) << std::flush;
    code = kOk;
  });
}
}  // namespace optrush
