#include "report/analysis/step_cost.h"

#include "base/text.h"

namespace optrush {
namespace {
std::optional<double> number_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || !found->is_number() ? std::nullopt : std::optional(found->get<double>());
}
}  // namespace

std::optional<StepCost> step_cost_from(const Json& costs) {
  if (!costs.is_object()) return std::nullopt;
  const Json total = costs.value("total", Json::object());
  const Json weights = costs.value("weight_casts", Json::object());
  return StepCost{.launches = number_in(total, "launches"),
                  .host_waits = number_in(total, "host_waits"),
                  .copies = number_in(total, "copies"),
                  .copied_bytes = number_in(total, "copied_bytes"),
                  .casts = number_in(total, "casts"),
                  .cast_bytes = number_in(total, "cast_bytes"),
                  .casts_of_a_weight = number_in(weights, "most"),
                  .elementwise_bytes = number_in(total, "elementwise_bytes"),
                  .matmul_flops = number_in(total, "matmul_flops"),
                  .attention_flops = number_in(total, "attention_flops")};
}

CostLine planned_cost(const std::string& rung, const std::optional<Plan>& plan) {
  if (!plan) return {rung, {}, {}, "no plan"};
  return {rung, step_cost_from(plan->costs), plan->memory, first_line(plan->no_forecast)};
}
}  // namespace optrush
