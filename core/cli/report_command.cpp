#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/option_parts.h"
#include "cli/speed_limits.h"
#include "process/terminal.h"
#include "report/report.h"
#include "report/writers/tracking.h"

namespace optrush {
void add_report_command(CLI::App& app, int& code) {
  struct Options {
    std::filesystem::path folder, out;
    std::string tracker;
    std::vector<std::string> limits;
    ReportOptions report;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("report", "render a report again from its stored results");
  command->add_option("folder", options->folder, "reports/EXPERIMENT/LABEL")->required();
  auto* png = command->add_flag("--png", options->report.png, "also write the charts as PNG");
  command
      ->add_option("--target-loss", options->report.target_loss,
                   "validation loss for time to loss; replaces the experiment's target")
      ->type_name("LOSS")
      ->check(above_zero());
  auto* to = command->add_option("--to", options->tracker,
                                 "export the runs to csv, tensorboard or wandb; the report is not rendered");
  to->type_name("FORMAT")->excludes(png)->check(CLI::IsMember({"csv", "tensorboard", "wandb"}));
  command
      ->add_option("--out", options->out,
                   "with --to: folder of the export; default: exported/FORMAT in the report's folder")
      ->type_name("FOLDER")
      ->needs(to);
  add_repeated(
      *command, "--fail-below", options->limits, "RUNG=RATIO",
      "print one line; exit code 1 if the rung is certainly slower than this ratio to the base, or failed")
      ->excludes(to);
  command->callback([options, &code] {
    code = kOk;
    if (!options->tracker.empty()) {
      const auto folder =
          options->out.empty() ? options->folder / "exported" / options->tracker : options->out;
      write_tracked(analyze(options->folder, options->report, ResultParts{}), options->tracker, folder);
      std::cout << folder.string() << std::endl;
      return;
    }
    const WrittenReport written = write_report(options->folder, options->report);
    if (!written.warning.empty()) std::cerr << "optrush: warning: " << written.warning << "\n";
    if (!options->limits.empty()) {
      code = print_limits(limited_speeds(written.analysis, options->limits));
      return;
    }
    std::cout << ladder_table(written.analysis, output_columns()) << "\n"
              << (options->folder / "report.md").string() << std::endl;
  });
}
}  // namespace optrush
