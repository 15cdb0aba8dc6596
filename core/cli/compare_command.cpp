#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "report/analysis/compare.h"
#include "report/writers/writers.h"

namespace optrush {
void add_compare_command(CLI::App& app, int& code) {
  struct Options {
    std::vector<std::filesystem::path> folders;
    bool json = false, markdown = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("compare", "compare reports of different machines or commits");
  command
      ->add_option("reports", options->folders,
                   "two or more reports/EXPERIMENT/LABEL; ratios are relative to the first")
      ->required();
  auto* json = command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--markdown", options->markdown, "print Markdown tables")->excludes(json);
  command->callback([options, &code] {
    const ComparedReports compared = compare_reports(options->folders);
    if (options->json)
      std::cout << comparison_json(compared).dump(2, ' ', true, Json::error_handler_t::replace) << "\n";
    else
      std::cout << (options->markdown ? comparison_markdown(compared) : comparison_text(compared));
    std::cout << std::flush;
    code = kOk;
  });
}
}  // namespace optrush
