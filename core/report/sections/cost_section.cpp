#include "report/sections/cost_section.h"

#include <algorithm>
#include <cmath>

#include "analysis/checked_rows.h"
#include "analysis/numbers/format.h"
#include "base/text.h"

namespace optrush {
namespace {
std::string count(double value) { return value < 1000 ? fixed(value, 0) : grouped(value); }
std::string teraflops(double flops) {
  if (flops == 0) return "0";
  return flops < 1e11 ? grouped(flops * 1e-9) + " GFLOP" : grouped(flops * 1e-12) + " TFLOP";
}

/// For example "13 (2.10 GiB)".
std::string with_bytes(const std::optional<double>& number, const std::optional<double>& size) {
  if (!number) return kUnknown;
  return count(*number) + (size.value_or(0) > 0 ? " (" + bytes(*size) + ")" : "");
}

/// Copies between host and device are known only of a GPU.
bool is_of_a_gpu(const CostLine& line) {
  return (line.memory && line.memory->reserved) || (line.cost && line.cost->copies);
}

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

CostLine planned_cost(const std::string& rung, const std::optional<Plan>& plan) {
  if (!plan) return {rung, {}, {}, "no plan"};
  return {rung, step_cost_from(plan->costs), plan->memory, first_line(plan->no_forecast)};
}

Table cost_table(const std::vector<CostLine>& lines) {
  const bool gpu = std::ranges::any_of(lines, is_of_a_gpu);
  Table table = gpu ? Table({"rung", ">launches", ">host waits", ">copies", ">casts", ">casts of a weight",
                             ">elementwise", ">matmuls", ">attention", ">peak", ">reserved"})
                    : Table({"rung", ">casts", ">casts of a weight", ">elementwise", ">matmuls", ">attention",
                             ">peak"});
  for (const CostLine& line : lines) {
    const StepCost cost = line.cost.value_or(StepCost{});
    std::vector<std::string> cells = {line.rung + (line.why_not.empty() ? "" : " (" + line.why_not + ")")};
    if (gpu)
      cells.insert(cells.end(), {or_unknown(cost.launches, count), or_unknown(cost.host_waits, count),
                                 with_bytes(cost.copies, cost.copied_bytes)});
    cells.insert(cells.end(),
                 {with_bytes(cost.casts, cost.cast_bytes), or_unknown(cost.casts_of_a_weight, count),
                  or_unknown(cost.elementwise_bytes, bytes), or_unknown(cost.matmul_flops, teraflops),
                  or_unknown(cost.attention_flops, teraflops), or_unknown(line.memory, planned_peak_text)});
    if (gpu) cells.push_back(line.memory ? or_unknown(line.memory->reserved, bytes) : kUnknown);
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::vector<std::string> cost_remarks(const std::vector<CostLine>& lines) {
  const bool gpu = std::ranges::any_of(lines, is_of_a_gpu);
  std::vector<std::string> remarks;
  if (gpu)
    remarks.emplace_back(
        "Launches is the number of kernels in a step: one per operator that computes, and one per chunk of a "
        "multi-tensor operator.");
  remarks.emplace_back(
      "Elementwise is the number of bytes that kernels other than matmul and attention read and write, casts "
      "included. Attention counts fused kernels; unfused attention counts as matmuls.");
  if (std::ranges::any_of(lines, [](const CostLine& line) { return !line.cost && line.memory; }))
    remarks.emplace_back(
        "The costs of a rung with compiled or recorded code are not known, because its kernels are not "
        "counted.");
  if (gpu)
    remarks.emplace_back(
        "Peak is the predicted peak memory. It includes the rounding to the allocator's blocks and the "
        "workspaces of cuBLAS. Reserved is the memory that LibTorch's caching allocator takes from the GPU. "
        "Neither includes the CUDA context of 0.3 to 0.8 GiB.");
  if (std::ranges::any_of(
          lines, [](const CostLine& line) { return line.memory && !line.memory->bounded_by.empty(); }))
    remarks.emplace_back("Two numbers are a lower and an upper bound of the peak.");
  return remarks;
}

Section cost_section(const Analysis& a) {
  Section section{.title = "What a step costs",
                  .lead = "This table counts the casts, bytes and FLOPs of one step."};
  std::vector<CostLine> lines;
  for (const Row& row : a.rows)
    if (row.cost || (row.ok() && row.planned_memory))
      lines.push_back({row.name, row.cost, row.planned_memory, ""});
  if (std::ranges::none_of(lines, [](const CostLine& line) { return line.cost.has_value(); })) return {};
  section.table = cost_table(lines);
  section.bullets = cost_remarks(lines);
  return section;
}

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
