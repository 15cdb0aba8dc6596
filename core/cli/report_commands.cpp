// The commands that read stored reports, and their limits of speeds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/numbers/format.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/option_parts.h"
#include "process/terminal.h"
#include "report/claims/claims.h"
#include "report/report.h"
#include "report/sections/document.h"
#include "report/writers/tracking.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
/// A ratio of speeds and the limit that it must keep (docs/guides/continuous_integration.md). It breaks the
/// limit if its whole interval is below it, or if there is a `problem` because of which it has no interval.
struct LimitedSpeed {
  std::string name;  ///< of the rung
  double limit = 1;
  std::optional<Ratio> speed;
  std::string problem = {};

  bool broken() const { return !problem.empty() || speed->interval->high < limit; }
};

LimitedSpeed limited(std::string name, double limit, Status status, const std::optional<Ratio>& speed,
                     const std::string& differs) {
  LimitedSpeed found{.name = std::move(name), .limit = limit, .speed = speed};
  if (status != Status::ok)
    found.problem = what_happened(status);
  else if (!differs.empty())
    found.problem = "is not like for like: " + differs;
  else if (!speed || !speed->interval)
    found.problem = "needs " + std::to_string(kMinRounds) + " rounds";
  return found;
}

/// The rung and the limit of "RUNG=1.05".
std::pair<std::string, double> parsed(const std::string& text) {
  const size_t at = text.rfind('=');
  double limit = 0;
  if (at == std::string::npos || !CLI::detail::lexical_cast(text.substr(at + 1), limit) || limit <= 0)
    throw UsageError("--fail-below: '" + text + "' is not of the form RUNG=RATIO",
                     "give a rung and a ratio above 0: --fail-below 'fused AdamW=1.05'");
  return {text.substr(0, at), limit};
}

std::string text_of(const LimitedSpeed& speed) {
  return speed.name + " " + (speed.problem.empty() ? interval_text(*speed.speed) : speed.problem);
}

/// The rungs of a report that `limits` ("RUNG=1.05") name, relative to its base.
std::vector<LimitedSpeed> limited_speeds(const Analysis& analysis, const std::vector<std::string>& limits) {
  std::vector<LimitedSpeed> found;
  for (const std::string& text : limits) {
    const auto [name, limit] = parsed(text);
    const auto row = std::ranges::find(analysis.rows, name, &Row::name);
    if (row == analysis.rows.end()) {
      const auto names = texts_of(analysis.rows, &Row::name);
      const std::string best = nearest(name, names);
      throw UsageError(ErrorCode::unknown_name, "--fail-below: the report has no rung '" + name + "'",
                       best.empty() ? "rungs: " + join(names) : "did you mean '" + best + "'?");
    }
    found.push_back(limited(name, limit, row->status, row->base.speed, row->base.differs));
  }
  return found;
}

/// All rungs of the first report, in each of the others.
std::vector<LimitedSpeed> limited_speeds(const ComparedReports& compared, double limit) {
  std::vector<LimitedSpeed> found;
  const bool many = compared.reports.size() > 2;
  for (const auto& line : compared.lines) {
    if (!line.cells.front() || line.cells.front()->status != Status::ok) continue;
    for (size_t i = 1; i < line.cells.size(); ++i) {
      const std::string name = line.rung + (many ? " in " + compared.reports[i].name : "");
      const auto& cell = line.cells[i];
      if (!cell)
        found.push_back({.name = name, .limit = limit, .problem = "is missing"});
      else if (cell->over_base && cell->over_base->interval && cell->over_base->interval->high < limit)
        found.push_back(
            limited(name + " over the base", limit, cell->status, cell->over_base, cell->differs));
      else
        found.push_back(limited(name, limit, cell->status, cell->speed, cell->differs));
    }
  }
  if (found.empty())
    found.push_back({.name = "the first report", .limit = limit, .problem = "has no successful rung"});
  return found;
}

/// Prints one line and returns the exit code.
int print_limits(const std::vector<LimitedSpeed>& speeds) {
  std::vector<std::string> broken, open;
  for (const auto& speed : speeds)
    if (speed.broken())
      broken.push_back(text_of(speed) +
                       (speed.problem.empty() ? " is below " + ratio_only(speed.limit) : ""));
    else if (speed.speed->interval->low < speed.limit)
      open.push_back(text_of(speed));
  std::string line = broken.empty() ? "passed: " + counted(speeds.size(), "rung") + " checked"
                                    : "failed: " + join(broken, "; ");
  if (!open.empty()) line += "; undecided: " + join(open, "; ");
  std::cout << line << std::endl;
  return broken.empty() ? kOk : kSomethingFailed;
}
}  // namespace

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
  add_value(*command, "--target-loss", options->report.target_loss, "LOSS",
            "validation loss for time to loss; replaces the experiment's target")
      ->check(above_zero());
  auto* to = add_value(*command, "--to", options->tracker, "FORMAT",
                       "export the runs to csv, tensorboard or wandb; the report is not rendered");
  to->excludes(png)->check(CLI::IsMember({"csv", "tensorboard", "wandb"}));
  add_value(*command, "--out", options->out, "FOLDER",
            "with --to: folder of the export; default: exported/FORMAT in the report's folder")
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
    std::cout << as_typed(ladder_table(written.analysis, output_columns())) << "\n"
              << (options->folder / "report.md").string() << std::endl;
  });
}

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
  add_value(
      *command, "--fail-below", options->limit, "RATIO",
      "print one line; exit code 1 if a rung of the first report is certainly slower in another one than "
      "this ratio, or failed there")
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
