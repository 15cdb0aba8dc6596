#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "report/analysis/compare.h"
#include "report/analysis/finding_parts.h"
#include "report/numbers/format.h"
#include "report/numbers/verdict.h"

namespace optrush {
namespace {
using Cell = ComparedReports::Cell;
using Line = ComparedReports::Line;

/// "faster in 2 of 3 shared rungs (most: bf16 autocast 1.50x)"; "" if there are none.
std::string count_text(const char* what, std::vector<const Line*> lines, size_t report, size_t shared) {
  if (lines.empty()) return "";
  const auto speed = [&](const Line* line) { return line->cells[report]->speed->value; };
  const Line& most = **std::ranges::max_element(
      lines, {}, [&](const Line* line) { return std::abs(std::log(speed(line))); });
  return std::string(what) + " in " + std::to_string(lines.size()) + " of " +
         counted(static_cast<int64_t>(shared), "shared rung") + (lines.size() == 1 ? " (" : " (most: ") +
         most.rung + " " + ratio_only(speed(&most)) + ")";
}

std::string against_first(const ComparedReports& compared, size_t report) {
  std::vector<const Line*> shared, faster, slower, alike, open;
  const Line* memory = nullptr;
  std::vector<std::string> ends;
  for (const Line& line : compared.lines) {
    const auto &first = line.cells.front(), &cell = line.cells[report];
    if (!first || !cell) continue;
    if (first->status == Status::ok && cell->status != Status::ok && cell->status != Status::skipped)
      ends.push_back(line.rung + " " + what_happened(cell->status) + " in " + compared.reports[report].name);
    if (!cell->speed || !cell->differs.empty()) continue;
    shared.push_back(&line);
    const Outcome outcome = verdict_of(*cell->speed).outcome;
    (outcome == Outcome::faster   ? faster
     : outcome == Outcome::slower ? slower
     : outcome == Outcome::alike  ? alike
                                  : open)
        .push_back(&line);
    const auto change = [](const Line& l, size_t r) {
      return std::abs(l.cells[r]->memory_ratio.value_or(1) - 1);
    };
    if (change(line, report) >= kWorthNaming &&
        (memory == nullptr || change(line, report) > change(*memory, report)))
      memory = &line;
  }
  const std::string& name = compared.reports[report].name;
  const std::string& other = compared.reports.front().name;
  if (shared.empty())
    return name + " and " + other + " have no successful rung of the same problem in common";
  std::vector<std::string> parts;
  for (auto& text : {count_text("faster", faster, report, shared.size()),
                     count_text("slower", slower, report, shared.size())})
    if (!text.empty()) parts.push_back(text);
  const std::string text = parts.empty() ? name + " is not shown to be faster or slower than " + other
                                         : "Against " + other + ", " + name + " is " + join(parts, " and ");
  std::vector<std::string> rest;
  if (!alike.empty())
    rest.push_back(counted(std::ssize(alike), "rung") + (alike.size() == 1 ? " shows" : " show") +
                   " no difference");
  if (!open.empty())
    rest.push_back(counted(std::ssize(open), "rung") + (open.size() == 1 ? " is" : " are") + " undecided");
  if (memory != nullptr)
    rest.push_back(memory->rung + " takes " + memory_change(memory->cells[report]->memory_ratio));
  for (const auto& end : ends) rest.push_back(end);
  return text + (rest.empty() ? "" : "; " + join(rest, "; "));
}
}  // namespace

std::string headline(const ComparedReports& compared) {
  std::string text;
  for (size_t report = 1; report < compared.reports.size(); ++report) {
    text += (text.empty() ? "" : " ") + against_first(compared, report) + ".";
  }
  return text;
}
}  // namespace optrush
