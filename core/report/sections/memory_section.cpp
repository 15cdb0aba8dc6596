#include <algorithm>
#include <cmath>

#include "analysis/numbers/format.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// For example "Peak memory ranges from 129 MiB (checkpointing) to 374 MiB (bf16 autocast); predictions are
/// within 8.5 %."
std::string memory_lead(const Rows& all) {
  Rows rows = all;
  std::erase_if(rows, [](const Row* row) { return !row->memory.allocated; });
  if (rows.empty()) return "This section shows the memory that tensors and processes hold.";
  const auto peak = [](const Row* row) { return *row->memory.allocated; };
  const auto [least, most] = std::ranges::minmax(rows, {}, peak);
  std::string text = "Peak memory is " + bytes(peak(least)) +
                     (rows.size() < all.size() ? " in every rung that measures it" : " in every rung");
  if (bytes(peak(least)) != bytes(peak(most)))
    text = "Peak memory ranges from " + bytes(peak(least)) + " (" + least->name + ") to " +
           bytes(peak(most)) + " (" + most->name + ")";
  std::optional<double> error;
  for (const Row* row : rows)
    if (row->prediction_error) error = std::max(error.value_or(0), std::abs(*row->prediction_error));
  return text + (error ? "; predictions are within " + percent(std::max(*error, 0.001)) + "." : ".");
}
}  // namespace

Section memory_section(const Analysis& a, const Family& family) {
  Section section{.title = title_for("Memory", family),
                  .chart = "memory" + family.suffix,
                  .caption =
                      "The upper bar of a rung is its peak memory: the most bytes that tensors hold in the "
                      "timed steps. The line across it marks the prediction. The lower bar shows the tensors "
                      "of a step by purpose. They "
                      "do not all exist at the same time, and temporary tensors are left out."};
  if (std::ranges::any_of(family.rows, [](const Row* row) { return row->devices > 1; }))
    section.bullets.emplace_back(
        "With several ranks, the table shows the largest peak of all ranks, and the tensors of rank 0.");
  static const std::vector<std::string_view> kMeasured = {"peak_allocated_bytes"},
                                             kParts = {"prediction_error",  "parameters_bytes",
                                                       "gradients_bytes",   "optimizer_state_bytes",
                                                       "activations_bytes", "peak_reserved_bytes",
                                                       "process_bytes"};
  Table table({"rung"});
  add_columns(table, kMeasured);
  table.columns.push_back({"predicted", true});
  add_columns(table, kParts);
  for (const Row* each : family.rows) {
    const Row& row = *each;
    if (!row.memory.allocated && row.memory.parts.empty() && !row.memory.process) continue;
    std::vector<std::string> cells = {row.name};
    add_cells(cells, kMeasured, a, row);
    cells.push_back(row.planned_memory ? planned_peak_text(*row.planned_memory) : std::string(kUnknown));
    add_cells(cells, kParts, a, row);
    table.rows.push_back(std::move(cells));
  }
  section.lead = memory_lead(family.rows);
  if (table.rows.empty()) return a.experiment.program ? Section() : section;
  section.table = std::move(table);
  section.bullets.emplace_back(
      "Peak reserved is the most that the caching allocator holds. Process is the memory of the whole "
      "process.");
  return section;
}

}  // namespace optrush
