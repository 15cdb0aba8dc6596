#include <algorithm>
#include <limits>

#include "report/analysis/time_to_loss.h"
#include "report/numbers/format.h"
#include "report/sections/document.h"

namespace optrush {
std::vector<const Row*> rows_over_time(const Analysis& a, const std::vector<const Row*>& rows) {
  std::vector<const Row*> found;
  for (const Row* row : rows)
    if (row->ok() && row->runs_of() == row->variant &&
        (a.experiment.target_loss > 0 || !row->validation.empty()) &&
        !losses_by_time(row->steps, row->validation).empty())
      found.push_back(row);
  // Training and validation losses are not compared with each other.
  if (std::ranges::any_of(found, [](const Row* row) { return !row->validation.empty(); }))
    std::erase_if(found, [](const Row* row) { return row->validation.empty(); });
  // A single row is already in the chart of losses.
  return found.size() > 1 ? found : std::vector<const Row*>();
}

Section time_section(const Analysis& a, const Family& family) {
  const auto rows = rows_over_time(a, family.rows);
  if (rows.empty()) return {};
  double shortest = std::numeric_limits<double>::infinity();
  for (const Row* row : rows)
    shortest = std::min(shortest, losses_by_time(row->steps, row->validation).back().seconds);
  Section section{
      .title = title_for("Loss over time", family),
      .lead = "This section compares losses after the same training time.",
      .chart = "time" + family.suffix,
      .caption = "The chart shows the loss of each rung's first round against the time of its steps."};
  Table table{{{"rung"}, {"loss after " + duration(shortest), true}, {"last loss", true}, {"after", true}},
              {}};
  for (const Row* row : rows) {
    const auto losses = losses_by_time(row->steps, row->validation);
    table.rows.push_back({row->name,
                          or_unknown(loss_at(losses, shortest), [](double x) { return fixed(x, 4); }),
                          fixed(losses.back().loss, 4), duration(losses.back().seconds)});
  }
  section.table = std::move(table);
  section.bullets = {
      "The first column shows the loss at the time at which the fastest rung had finished all its steps. It "
      "is "
      "interpolated between two losses."};
  return section;
}
}  // namespace optrush
