#include <array>
#include <functional>

#include "report/format.h"
#include "report/verdict.h"
#include "report/writers.h"

namespace optrush {
namespace {
using Number = std::optional<double>;
std::string csv_cell(const Number& value) { return value ? exact_number(*value) : ""; }
/// What is published is above 0.
std::string csv_cell(double published) { return published > 0 ? exact_number(published) : ""; }
std::string csv_cell(int64_t value) { return std::to_string(value); }
std::string csv_cell(size_t value) { return std::to_string(value); }
std::string csv_cell(const std::string& value) { return value; }

Number ratio(const Comparison& c) { return c.speed ? Number(c.speed->value) : std::nullopt; }
Number low(const Comparison& c) {
  return c.speed && c.speed->interval ? Number(c.speed->interval->low) : std::nullopt;
}
Number high(const Comparison& c) {
  return c.speed && c.speed->interval ? Number(c.speed->interval->high) : std::nullopt;
}

std::string verdict(const Comparison& c) {
  return c.speed ? std::string(to_string(verdict_of(*c.speed).outcome)) : "";
}

template <class Pairs>
Number value_named(const Pairs& pairs, std::string_view wanted) {
  for (const auto& [name, value] : pairs)
    if (name == wanted) return value;
  return std::nullopt;
}

/// "mine: gathers=12; mine: gathered=4096"
std::string counters_text(const Row& row) {
  std::string text;
  for (const CounterResult& counter : row.counters)
    text +=
        (text.empty() ? "" : "; ") + counter.plugin + ": " + counter.name + "=" + exact_number(counter.value);
  return text;
}

int64_t world_size(const Analysis& a, const Row& row) { return a.spec(row).train.world_size; }

struct Column {
  const char* name;
  std::function<std::string(const Analysis&, const Row&)> text;
};

/// The fixed columns of docs/schema/results_csv.md, in order.
const std::vector<Column>& columns() {
  using A = const Analysis&;
  using R = const Row&;
  static const auto phase = [](const char* name) {
    return [name](A, R r) { return csv_cell(value_named(r.phases, name)); };
  };
  static const auto cost = [](Number StepCost::*what) {
    return [what](A, R r) { return r.cost ? csv_cell((*r.cost).*what) : ""; };
  };
  static const auto part = [](const char* name) {
    return [name](A, R r) { return csv_cell(value_named(r.memory.parts, name)); };
  };
  static const auto planned = [](auto member) {
    return [member](A, R r) { return r.planned_memory ? csv_cell((*r.planned_memory).*member) : ""; };
  };
  static const auto published = [](auto member) {
    return [member](A, R r) { return r.published ? csv_cell((*r.published).*member) : ""; };
  };
  static const std::vector<Column> kColumns = {
      {"experiment", [](A a, R) { return csv_cell(a.experiment.name); }},
      {"label", [](A a, R) { return csv_cell(a.experiment.label); }},
      {"variant", [](A, R r) { return csv_cell(r.variant); }},
      {"rung", [](A, R r) { return csv_cell(r.name); }},
      {"group", [](A, R r) { return csv_cell(r.group); }},
      {"status", [](A, R r) { return std::string(to_string(r.status)); }},
      {"reason", [](A, R r) { return csv_cell(r.reason); }},
      {"rounds", [](A, R r) { return csv_cell(r.rounds.size()); }},
      {"devices", [](A, R r) { return csv_cell(r.devices); }},
      {"world_size", [](A a, R r) { return csv_cell(world_size(a, r)); }},
      {"tokens_per_second", [](A, R r) { return csv_cell(r.tokens_per_second); }},
      {"tokens_per_second_per_device", [](A, R r) { return csv_cell(r.tokens_per_second_per_device); }},
      {"trained_tokens_per_second", [](A, R r) { return csv_cell(r.trained_tokens_per_second); }},
      {"padding", [](A, R r) { return csv_cell(r.padding); }},
      {"step_seconds", [](A, R r) { return csv_cell(r.step_seconds); }},
      {"previous", [](A, R r) { return csv_cell(r.previous.name); }},
      {"vs_previous", [](A, R r) { return csv_cell(ratio(r.previous)); }},
      {"vs_previous_low", [](A, R r) { return csv_cell(low(r.previous)); }},
      {"vs_previous_high", [](A, R r) { return csv_cell(high(r.previous)); }},
      {"vs_previous_verdict", [](A, R r) { return verdict(r.previous); }},
      {"vs_previous_differs", [](A, R r) { return csv_cell(r.previous.differs); }},
      {"base", [](A, R r) { return csv_cell(r.base.name); }},
      {"vs_base", [](A, R r) { return csv_cell(ratio(r.base)); }},
      {"vs_base_low", [](A, R r) { return csv_cell(low(r.base)); }},
      {"vs_base_high", [](A, R r) { return csv_cell(high(r.base)); }},
      {"vs_base_verdict", [](A, R r) { return verdict(r.base); }},
      {"vs_base_differs", [](A, R r) { return csv_cell(r.base.differs); }},
      {"peak_allocated_bytes", [](A, R r) { return csv_cell(r.memory.allocated); }},
      {"peak_vs_previous", [](A, R r) { return csv_cell(r.previous.memory); }},
      {"peak_vs_base", [](A, R r) { return csv_cell(r.base.memory); }},
      {"peak_reserved_bytes", [](A, R r) { return csv_cell(r.memory.reserved); }},
      {"process_bytes", [](A, R r) { return csv_cell(r.memory.process); }},
      {"parameters_bytes", part("parameters")},
      {"gradients_bytes", part("gradients")},
      {"optimizer_state_bytes", part("optimizer_state")},
      {"activations_bytes", part("activations")},
      {"predicted_peak_bytes", [](A, R r) { return csv_cell(r.predicted_peak); }},
      {"predicted_least_bytes", planned(&PlannedMemory::least)},
      {"predicted_most_bytes", planned(&PlannedMemory::peak)},
      {"predicted_reserved_bytes", planned(&PlannedMemory::reserved)},
      {"prediction_error", [](A, R r) { return csv_cell(r.prediction_error); }},
      {"model_flops_per_second", [](A, R r) { return csv_cell(r.model_flops_per_second); }},
      {"mfu", [](A, R r) { return csv_cell(r.mfu); }},
      {"mfu_of_dtype", [](A, R r) { return csv_cell(r.mfu_of_dtype); }},
      {"mfu_causal", [](A, R r) { return csv_cell(r.mfu_causal); }},
      {"hfu", [](A, R r) { return csv_cell(r.hfu); }},
      {"data_seconds", phase("data")},
      {"forward_seconds", phase("forward")},
      {"backward_seconds", phase("backward")},
      {"communication_seconds", phase("communication")},
      {"optimizer_seconds", phase("optimizer")},
      {"exposed_seconds", [](A, R r) { return csv_cell(r.exposed_seconds); }},
      {"sent_bytes", [](A, R r) { return csv_cell(r.sent_bytes); }},
      {"launches", cost(&StepCost::launches)},
      {"host_waits", cost(&StepCost::host_waits)},
      {"copies", cost(&StepCost::copies)},
      {"copied_bytes", cost(&StepCost::copied_bytes)},
      {"casts", cost(&StepCost::casts)},
      {"cast_bytes", cost(&StepCost::cast_bytes)},
      {"casts_of_a_weight", cost(&StepCost::casts_of_a_weight)},
      {"elementwise_bytes", cost(&StepCost::elementwise_bytes)},
      {"final_loss", [](A, R r) { return csv_cell(r.final_loss); }},
      {"loss_change", [](A, R r) { return csv_cell(r.loss_change); }},
      {"validation_loss",
       [](A, R r) { return r.validation.empty() ? "" : exact_number(r.validation.back().loss); }},
      {"seconds_to_loss", [](A, R r) { return r.time_to_loss ? csv_cell(r.time_to_loss->seconds) : ""; }},
      {"steps_to_loss", [](A, R r) { return r.time_to_loss ? csv_cell(r.time_to_loss->steps) : ""; }},
      {"counters", [](A, R r) { return counters_text(r); }},
      {"gate_worst", [](A, R r) { return r.verdict.compared ? csv_cell(Number(r.verdict.loss.worst)) : ""; }},
      {"gate_tolerance",
       [](A, R r) { return r.verdict.compared ? csv_cell(Number(r.verdict.loss.tolerance)) : ""; }},
      {"gate_norm_worst",
       [](A, R r) { return r.verdict.norm ? csv_cell(Number(r.verdict.norm->worst)) : ""; }},
      {"gate_norm_tolerance",
       [](A, R r) { return r.verdict.norm ? csv_cell(Number(r.verdict.norm->tolerance)) : ""; }},
      {"compile_seconds", [](A, R r) { return csv_cell(r.compile_seconds); }},
      {"setup_seconds", [](A, R r) { return csv_cell(r.setup_seconds); }},
      {"joules_per_token", [](A, R r) { return csv_cell(r.joules_per_token); }},
      {"cost_per_million_tokens", [](A, R r) { return csv_cell(r.cost_per_million_tokens); }},
      {"currency", [](A a, R r) { return r.cost_per_million_tokens ? a.experiment.currency : ""; }},
      {"published_speedup", published(&Published::speedup)},
      {"published_memory", published(&Published::memory)},
      {"published_on", published(&Published::on)},
      {"published_source", published(&Published::source)},
  };
  return kColumns;
}
}  // namespace

std::string csv(const Analysis& a) {
  std::string text;
  const auto add_line = [&](auto&& cell) {
    const char* separator = "";
    for (const Column& column : columns()) {
      text += separator + csv_field(cell(column));
      separator = ",";
    }
    text += "\n";
  };
  add_line([](const Column& column) { return std::string(column.name); });
  for (const Row& row : a.rows) add_line([&](const Column& column) { return column.text(a, row); });
  return text;
}
}  // namespace optrush
