#include "cli/speed_limits.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "analysis/numbers/format.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/commands.h"
#include "report/claims/claims.h"

namespace optrush {
namespace {
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
}  // namespace

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
}  // namespace optrush
