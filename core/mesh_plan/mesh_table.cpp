#include "mesh_plan/mesh_table.h"

#include <algorithm>

#include "report/format.h"

namespace optrush {
namespace {
std::string share(double part, double whole) { return percent(part / whole, 0); }

Table plan_table(const MeshPlan& plan, size_t top) {
  Table table{{{"mesh"},
               {"sharding"},
               {"micro-batches"},
               {"chunks", true},
               {"recomputed"},
               {"memory", true},
               {"a device sends in a step"},
               {"bubble", true},
               {"exposed", true},
               {"step", true},
               {"tokens/s a device", true},
               {"MFU", true}},
              {}};
  for (size_t i = 0; i < std::min(top, plan.fitting.size()); ++i) {
    const auto& [mix, memory, cost] = plan.fitting[i];
    table.rows.push_back({mesh_text(mix), sharding_text(mix), batch_text(mix), std::to_string(mix.chunks),
                          to_string(mix.recompute), bytes(memory.total()), sends_text(cost),
                          share(cost.bubble, cost.step()), share(cost.exposed, cost.step()),
                          duration(cost.step()), grouped(cost.tokens_per_second / real(plan.devices)),
                          mfu_text(cost.mfu)});
  }
  return table;
}

std::string summary(const MeshPlan& plan, const std::string& model) {
  const TrainingProblem& p = plan.problem;
  return model + " (" + count(DecoderWork(p.model).parameters()) + " parameters) on " +
         count(real(plan.devices)) + " x " + plan.hardware.name + ": " + count(real(p.global_batch)) +
         " sequences of " + count(real(p.seq_len)) + " tokens a step, " + to_string(p.precision) +
         ". A prediction, not a measurement.";
}

std::vector<std::string> left_out(const MeshPlan& plan) {
  std::vector<std::string> lines;
  if (plan.too_large > 0) {
    std::string line = std::to_string(plan.too_large) + " meshes and shardings fit in no schedule";
    if (plan.fitting.empty() && plan.smallest)
      line += "; the smallest needs " + bytes(plan.smallest->memory.total()) +
              " a device: " + mesh_text(plan.smallest->mix) + ", " + sharding_text(plan.smallest->mix);
    lines.push_back(line);
  }
  for (const auto& [reason, number] : plan.refused)
    lines.push_back(std::to_string(number) + (number == 1 ? " mesh" : " meshes") + " can't be: " + reason);
  return lines;
}

}  // namespace

std::string plan_text(const MeshPlan& plan, const std::string& model, size_t top, TableForm form) {
  std::string text = heading(summary(plan, model), form);
  if (!plan.fitting.empty()) text += drawn(plan_table(plan, top), form);
  std::vector<std::string> lines = left_out(plan);
  if (plan.fitting.size() > top)
    lines.insert(lines.begin(), std::to_string(plan.fitting.size() - top) + " more mixes fit (--top)");
  return text + bullets(lines, form) + "\nAssumptions:\n\n" +
         bullets(assumptions(plan.problem, plan.hardware), form);
}

Json plan_json(const MeshPlan& plan, const std::string& model, size_t top) {
  Json mixes = Json::array(), refused = Json::object();
  for (size_t i = 0; i < std::min(top, plan.fitting.size()); ++i)
    mixes.push_back(planned_json(plan.fitting[i]));
  for (const auto& [reason, number] : plan.refused) refused[reason] = number;
  return {{"schema_version", 1},
          {"model", model},
          {"parameters", DecoderWork(plan.problem.model).parameters()},
          {"devices", plan.devices},
          {"hardware", plan.hardware.name},
          {"seq_len", plan.problem.seq_len},
          {"global_batch", plan.problem.global_batch},
          {"dtype", to_string(plan.problem.precision)},
          {"fitting", plan.fitting.size()},
          {"too_large", plan.too_large},
          {"refused", refused},
          {"mixes", mixes},
          {"assumptions", assumptions(plan.problem, plan.hardware)}};
}
}  // namespace optrush
