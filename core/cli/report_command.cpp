#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "report/report.h"

namespace optrush {
void add_report_command(CLI::App& app, int& code) {
  struct Options {
    std::filesystem::path folder;
    ReportOptions report;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("report", "write a report again from its stored results");
  command->add_option("folder", options->folder, "reports/EXPERIMENT/LABEL")->required();
  command->add_flag("--png", options->report.png, "the charts as PNG, too");
  command->callback([options, &code] {
    const std::string warning = write_report(options->folder, options->report);
    std::cout << ladder_table(analyze(load_report(options->folder))) << "\n"
              << (options->folder / "report.md").string() << std::endl;
    if (!warning.empty()) std::cerr << "optrush: warning: " << warning << "\n";
    code = kOk;
  });
}
}  // namespace optrush
