#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/option_parts.h"
#include "cli/speed_limits.h"
#include "process/terminal.h"
#include "report/sections/document.h"
#include "report/writers/writers.h"

namespace optrush {
void add_compare_command(CLI::App& app, int& code) {
  struct Options {
    std::vector<std::filesystem::path> folders;
    std::optional<double> limit;
    bool json = false, markdown = false, html = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("compare", "compare reports of different machines or commits");
  command
      ->add_option("reports", options->folders,
                   "two or more reports/EXPERIMENT/LABEL; ratios are relative to the first")
      ->required();
  auto* json = command->add_flag("--json", options->json, "print JSON");
  auto* as_markdown = command->add_flag("--markdown", options->markdown, "print Markdown")->excludes(json);
  auto* as_html = command->add_flag("--html", options->html, "print a page for a browser, in one file");
  as_html->excludes(json)->excludes(as_markdown);
  command
      ->add_option("--fail-below", options->limit,
                   "print one line; exit code 1 if a rung of the first report is certainly slower in another "
                   "one than this ratio, or failed there")
      ->type_name("RATIO")
      ->check(above_zero())
      ->excludes(json)
      ->excludes(as_markdown)
      ->excludes(as_html);
  command->callback([options, &code] {
    const ComparedReports compared = compare_reports(options->folders, add_answer);
    if (options->limit) {
      code = print_limits(limited_speeds(compared, *options->limit));
      return;
    }
    const auto printed = [&]() -> std::string {
      if (options->json)
        return comparison_json(compared).dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
      const Document document = comparison_document(compared);
      return options->markdown ? markdown(document, {})
             : options->html   ? html(document, {})
                               : text(document, output_columns());
    };
    std::cout << printed() << std::flush;
    code = kOk;
  });
}
}  // namespace optrush
