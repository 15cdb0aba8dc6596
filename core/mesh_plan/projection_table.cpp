#include "mesh_plan/projection_table.h"

#include "mesh_plan/mesh_table.h"
#include "report/format.h"

namespace optrush {
namespace {
Table size_table(const std::vector<ProjectedSize>& sizes) {
  Table table{{{"model"},
               {"devices", true},
               {"mesh"},
               {"sharding"},
               {"micro-batches"},
               {"recomputed"},
               {"memory", true},
               {"step", true},
               {"tokens/s a device", true},
               {"MFU", true}},
              {}};
  for (const auto& [model, devices, plan] : sizes) {
    std::vector<std::string> row = {model, count(real(devices))};
    if (plan.fitting.empty()) {
      row.emplace_back("nothing fits");
      row.resize(table.columns.size(), std::string(kUnknown));
      if (plan.smallest) row[6] = bytes(plan.smallest->memory.total());
    } else {
      const auto& [mix, memory, cost] = plan.fitting.front();
      for (const std::string& cell : {mesh_text(mix), sharding_text(mix), batch_text(mix),
                                      to_string(mix.recompute), bytes(memory.total()), duration(cost.step()),
                                      grouped(cost.tokens_per_second / real(devices)), mfu_text(cost.mfu)})
        row.push_back(cell);
    }
    table.rows.push_back(row);
  }
  return table;
}

Table published_table(const std::vector<ProjectedRun>& runs) {
  Table table{{{"published by"},
               {"model"},
               {"devices", true},
               {"types"},
               {"sequences", true},
               {"mesh"},
               {"tokens/s a device, published", true},
               {"projected", true},
               {"error", true},
               {"remark"}},
              {}};
  for (const ProjectedRun& run : runs) {
    const PublishedRun& published = *run.published;
    const bool fits = run.tokens_per_second > 0;
    table.rows.push_back(
        {published.source, published.model, std::to_string(published.devices) + " " + published.hardware,
         to_string(published.problem.precision),
         std::to_string(published.problem.global_batch) + " x " + std::to_string(published.problem.seq_len),
         mesh_text(run.mix) + ", " + sharding_text(run.mix), grouped(published.tokens_per_second),
         fits ? grouped(run.tokens_per_second) : std::string(kUnknown),
         fits ? change(1 + run.error(), 0) : "nothing fits", published.note});
  }
  return table;
}
}  // namespace

std::string projection_text(const std::vector<ProjectedSize>& sizes, const std::vector<ProjectedRun>& runs,
                            TableForm form) {
  const MeshPlan& plan = sizes.front().plan;
  const std::string batch = count(real(plan.problem.global_batch)) + " sequences of " +
                            count(real(plan.problem.seq_len)) + " tokens a step, " +
                            to_string(plan.problem.precision);
  return heading("Projection, not a measurement: the best mix of " + plan.hardware.name + ", " + batch,
                 form) +
         drawn(size_table(sizes), form) +
         heading("What others measured, and the projection of the same settings", form) +
         drawn(published_table(runs), form) + "Assumptions of the projection:\n\n" +
         bullets(assumptions(plan.problem, plan.hardware), form);
}

Json projection_json(const std::vector<ProjectedSize>& sizes, const std::vector<ProjectedRun>& runs) {
  Json projected = Json::array(), published = Json::array();
  for (const ProjectedSize& size : sizes) projected.push_back(plan_json(size.plan, size.model, 1));
  for (const ProjectedRun& run : runs) {
    const bool fits = run.tokens_per_second > 0;
    published.push_back(
        {{"source", run.published->source},
         {"model", run.published->model},
         {"devices", run.published->devices},
         {"hardware", run.published->hardware},
         {"dtype", to_string(run.published->problem.precision)},
         {"global_batch", run.published->problem.global_batch},
         {"seq_len", run.published->problem.seq_len},
         {"mix", mix_json(run.mix)},
         {"published_tokens_per_second_per_device", run.published->tokens_per_second},
         {"projected_tokens_per_second_per_device", fits ? Json(run.tokens_per_second) : Json()},
         {"error", fits ? Json(run.error()) : Json()},
         {"remark", run.published->note}});
  }
  return {{"schema_version", 1}, {"projection", projected}, {"published", published}};
}
}  // namespace optrush
