// The answer of a comparison of reports.
#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/numbers/format.h"
#include "analysis/numbers/verdict.h"
#include "base/text.h"
#include "report/claims/claims.h"

namespace optrush {
namespace {
using Cell = ComparedReports::Cell;
using Line = ComparedReports::Line;
using Lines = std::vector<const Line*>;

/// "bf16 autocast 1.50x, flash 1.20x, 1 more", the largest differences first.
std::string named(Lines lines, size_t report, std::optional<Ratio> Cell::*ratio) {
  constexpr size_t kMost = 2;
  const auto speed = [&](const Line* line) { return ((*line->cells[report]).*ratio)->value; };
  std::ranges::stable_sort(lines, std::ranges::greater(),
                           [&](const Line* line) { return std::abs(std::log(speed(line))); });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kMost, lines.size()); ++i)
    names.push_back(name_in_text(lines[i]->rung) + " " + ratio_only(speed(lines[i])));
  if (lines.size() > kMost) names.push_back(std::to_string(lines.size() - kMost) + " more");
  return join(names);
}

std::string against_first(const ComparedReports& compared, size_t report) {
  std::map<Outcome, Lines> by_outcome, over_base;
  int64_t shared = 0;
  const auto memory_of = [&](const Line* line) { return line->cells[report]->memory_ratio; };
  const std::string &name = compared.reports[report].name, &other = compared.reports.front().name;
  const Line* memory = nullptr;  ///< the rung with the largest change
  std::vector<std::string> ends, claims;
  for (const Line& line : compared.lines) {
    const auto &first = line.cells.front(), &cell = line.cells[report];
    if (!first || !cell) continue;
    if (first->status == Status::ok && cell->status != Status::ok && cell->status != Status::skipped)
      ends.push_back(name_in_text(line.rung) + " " + what_happened(cell->status) + " in " + name);
    if (!cell->speed || !cell->differs.empty()) continue;
    ++shared;
    const Outcome outcome = verdict_of(*cell->speed).outcome;
    by_outcome[outcome].push_back(&line);
    if (cell->over_base && verdict_of(*cell->over_base).outcome != outcome)
      over_base[verdict_of(*cell->over_base).outcome].push_back(&line);
    if (!memory_change(cell->memory_ratio).empty() &&
        (memory == nullptr || std::abs(*cell->memory_ratio - 1) > std::abs(*memory_of(memory) - 1)))
      memory = &line;
  }
  if (shared == 0) return name + " and " + other + " have no successful rung of the same problem in common";
  for (const Outcome outcome : {Outcome::faster, Outcome::slower})
    if (const Lines& lines = by_outcome[outcome]; !lines.empty())
      claims.push_back(std::string(to_string(outcome)) + " in " + std::to_string(lines.size()) + " of " +
                       counted(shared, "shared rung") + " (" + named(lines, report, &Cell::speed) + ")");
  std::vector<std::string> parts = {claims.empty()
                                        ? name + " is not shown to be faster or slower than " + other
                                        : "Against " + other + ", " + name + " is " + join(claims, " and ")};
  for (const Outcome outcome : {Outcome::alike, Outcome::undecided, Outcome::too_few})
    if (const Lines& lines = by_outcome[outcome]; !lines.empty())
      parts.push_back(std::string(to_string(outcome)) + " in " + counted(lines.size(), "rung"));
  for (const Outcome outcome : {Outcome::faster, Outcome::slower})
    if (const Lines& lines = over_base[outcome]; !lines.empty())
      parts.push_back(std::string(to_string(outcome)) +
                      " over the base: " + named(lines, report, &Cell::over_base));
  if (memory != nullptr)
    parts.push_back(name_in_text(memory->rung) + " takes " + memory_change(memory_of(memory)));
  parts.insert(parts.end(), ends.begin(), ends.end());
  return join(parts, "; ");
}
}  // namespace

std::string headline(const ComparedReports& compared) {
  std::string text;
  for (size_t report = 1; report < compared.reports.size(); ++report)
    text += (text.empty() ? "" : " ") + against_first(compared, report) + ".";
  return text;
}
}  // namespace optrush
