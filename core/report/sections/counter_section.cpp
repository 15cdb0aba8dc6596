#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/numbers/format.h"
#include "base/text.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// One column per counter that any row has.
std::vector<const CounterResult*> columns_of(const Analysis& a) {
  std::vector<const CounterResult*> columns;
  for (const Row& row : a.rows)
    for (const CounterResult& counter : row.counters)
      if (std::ranges::none_of(columns, [&](const auto* column) { return column->same_as(counter); }))
        columns.push_back(&counter);
  std::ranges::stable_sort(columns, {}, &CounterResult::plugin);
  return columns;
}

std::string counter_title(const CounterResult& counter) {
  return counter.plugin + ": " + counter.name + (counter.per_step ? " per step" : "");
}

std::string value_of(const CounterResult& counter) {
  if (counter.unit == "bytes") return bytes(counter.value);
  if (counter.unit == "s") return duration(counter.value);
  const bool few = counter.value == std::trunc(counter.value) && std::abs(counter.value) < 1000;
  return (few ? exact_number(counter.value) : grouped(counter.value)) +
         (counter.unit.empty() ? "" : " " + counter.unit);
}

/// How the counters of several ranks become one number. The plugin declares it for each counter.
std::string over_ranks_text(const std::vector<const CounterResult*>& columns) {
  constexpr std::pair<const char*, const char*> kWays[] = {
      {"sum", "the sum"}, {"mean", "the mean"}, {"max", "the largest value"}};
  std::vector<std::string> parts;
  for (const auto& [way, text] : kWays) {
    std::vector<std::string> titles;
    for (const auto* column : columns)
      if (column->over_ranks == way) titles.push_back(counter_title(*column));
    if (titles.empty()) continue;
    const bool all = titles.size() == columns.size();
    parts.push_back(std::string(text) + " of all ranks" + (all ? "" : " for " + join(titles)));
  }
  return parts.empty() ? "" : " With several ranks, the table shows " + join(parts, "; ") + ".";
}
}  // namespace

Section counter_section(const Analysis& a) {
  Section section{.title = "What plugins count",
                  .lead = "This table shows the counters of plugins.",
                  .paragraphs = {"Counters are medians over rounds. A counter per step is its growth in the "
                                 "timed steps divided by their number."},
                  .table = Table()};
  const auto columns = columns_of(a);
  if (std::ranges::any_of(a.rows, [](const Row& row) { return row.devices > 1 && !row.counters.empty(); }))
    section.paragraphs.front() += over_ranks_text(columns);
  const Rows rows = rows_where(a.rows, [](const Row& row) { return !row.counters.empty(); });
  section.table->add({"rung"}, rows, &Row::name);
  for (const auto* column : columns)
    section.table->add({counter_title(*column), true}, rows, [&](const Row* row) {
      const auto found =
          std::ranges::find_if(row->counters, [&](const auto& counter) { return counter.same_as(*column); });
      return found == row->counters.end() ? kUnknown : value_of(*found);
    });
  return section;
}
}  // namespace optrush
