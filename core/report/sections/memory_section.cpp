#include <algorithm>
#include <cmath>

#include "analysis/numbers/format.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// For example "Peak memory ranges from 129 MiB (checkpointing) to 374 MiB (bf16 autocast); predictions are
/// within 8.5 %."
std::string memory_lead(const Rows& all) {
  const Rows rows = rows_where(all, [](const Row& row) { return row.memory.allocated.has_value(); });
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
  section.lead = memory_lead(family.rows);
  const Rows rows = rows_where(family.rows, [](const Row& row) {
    return row.memory.allocated || !row.memory.parts.empty() || row.memory.process;
  });
  if (rows.empty()) return a.experiment.program ? Section() : section;
  Table& table = section.table.emplace();
  table.add({"rung"}, rows, &Row::name);
  add_columns(table, {"peak_allocated_bytes"}, a, rows);
  table.add({"predicted", true}, rows,
            [](const Row* row) { return or_unknown(row->planned_memory, planned_peak_text); });
  add_columns(table,
              {"prediction_error", "parameters_bytes", "gradients_bytes", "optimizer_state_bytes",
               "activations_bytes", "peak_reserved_bytes", "process_bytes"},
              a, rows);
  section.bullets.emplace_back(
      "Peak reserved is the most that the caching allocator holds. Process is the memory of the whole "
      "process.");
  return section;
}
}  // namespace optrush
