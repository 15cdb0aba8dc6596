#include "mesh_plan/tables.h"

#include <algorithm>
#include <map>

#include "analysis/numbers/format.h"
#include "base/text.h"
#include "report/writers/writers.h"

namespace optrush::mesh_plan {
namespace {
std::string count(double number) { return number < 1000 ? fixed(number, 0) : grouped(number); }

std::string drawn(const Table& table, TableForm form) {
  return form == TableForm::markdown ? markdown_table(table) : text_table(table) + "\n";
}

std::string bullets(const std::vector<std::string>& lines, TableForm form) {
  std::string text;
  for (const auto& line : lines)
    text += "- " + (form == TableForm::markdown ? markdown_cell(line) : line) + "\n";
  return text;
}

std::string heading(const std::string& title, TableForm form) {
  return form == TableForm::markdown ? "## " + markdown_cell(title) + "\n\n" : title + "\n\n";
}

/// "2 x 16": sequences of a micro-batch, micro-batches of a step.
std::string batch_text(const ParallelConfig& mix) {
  return std::to_string(mix.micro_batch) + " x " + std::to_string(mix.accumulation);
}

/// "dp 14.2 GiB network, tp 120 GiB node".
std::string sends_text(const ConfigCost& cost) {
  std::map<std::string, std::pair<double, double>> sums;  // node, network
  for (const MixTraffic& sent : cost.traffic)
    (sent.ring.over_network ? sums[sent.dimension].second : sums[sent.dimension].first) += sent.bytes;
  std::vector<std::string> parts;
  for (const auto& [dimension, sum] : sums) {
    if (sum.first > 0) parts.push_back(dimension + " " + bytes(sum.first) + " node");
    if (sum.second > 0) parts.push_back(dimension + " " + bytes(sum.second) + " network");
  }
  return parts.empty() ? "nothing" : join(parts);
}

/// The assumptions of an estimate, each with its source.
std::vector<std::string> assumptions(const TrainingProblem& problem, const Hardware& hardware) {
  std::vector<std::string> lines = hardware.sources;
  lines.push_back(
      "memory: " + bytes(hardware.memory) + " per device; predictions may use " + percent(kUsableMemory, 0) +
      "; attention without stored scores, fused SwiGLU and norms, and a loss without full logits");
  lines.push_back("types: " + to_string(problem.precision) +
                  "; AdamW with two fp32 moments, and fp32 master weights if weights are bf16");
  lines.push_back("nodes of " + std::to_string(hardware.per_node) +
                  " devices; neighbours are ranks of tp, then ep, cp, dp, pp. A ring over nodes uses the "
                  "network links of all its ranks in a node");
  lines.emplace_back(
      "reductions of tp are not overlapped; experts are equally busy, and every second exchange of rows of "
      "ep overlaps with a shared expert; transfers of cp overlap with attention, by their total; "
      "gradients and parameters overlap with the passes of their step without slowing them, except one unit "
      "at either end");
  lines.emplace_back(
      "1F1B with balanced stages; causal attention computes half of the scores; every matrix product has the "
      "same rate, however small its shard; no failures and no slow devices");
  return lines;
}

Json config_json(const ParallelConfig& mix) {
  return {{"pp", mix.pp},
          {"dp", mix.dp},
          {"cp", mix.cp},
          {"ep", mix.ep},
          {"tp", mix.tp},
          {"stage", mix.stage},
          {"shard_ranks", mix.shard_ranks},
          {"micro_batch", mix.micro_batch},
          {"accumulation", mix.accumulation},
          {"chunks", mix.chunks},
          {"recomputed_share", share_of(mix.recompute)}};
}

Json planned_json(const PlannedConfig& planned) {
  const auto& [mix, memory, cost] = planned;
  Json traffic = Json::array();
  for (const MixTraffic& sent : cost.traffic)
    traffic.push_back({{"dimension", sent.dimension},
                       {"what", sent.what},
                       {"bytes", sent.bytes},
                       {"link", sent.ring.over_network ? "network" : "node"},
                       {"seconds", sent.seconds()}});
  return {{"mix", config_json(mix)},
          {"memory",
           {{"parameters", memory.parameters},
            {"gradients", memory.gradients},
            {"optimizer_state", memory.optimizer},
            {"activations", memory.activations},
            {"total", memory.total()}}},
          {"traffic", traffic},
          {"seconds",
           {{"compute", cost.compute},
            {"bubble", cost.bubble},
            {"exposed", cost.exposed},
            {"optimizer", cost.optimizer},
            {"step", cost.step()}}},
          {"tokens_per_second", cost.tokens_per_second},
          {"mfu", cost.mfu > 0 ? Json(cost.mfu) : Json()}};
}

std::string share(double part, double whole) { return percent(part / whole, 0); }

Table plan_table(const MeshPlan& plan, size_t top) {
  Table table({"mesh", "sharding", "micro-batches", ">chunks", "recomputed", ">memory",
               "sent per device and step", ">bubble", ">exposed", ">step", ">tokens/s per device", ">MFU"});
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
         " sequences of " + count(real(p.seq_len)) + " tokens per step, " + to_string(p.precision) +
         ". A prediction, not a measurement.";
}

std::vector<std::string> left_out(const MeshPlan& plan) {
  std::vector<std::string> lines;
  if (plan.too_large > 0) {
    std::string line = std::to_string(plan.too_large) + " meshes and shardings do not fit with any schedule";
    if (plan.fitting.empty() && plan.smallest)
      line += "; the smallest needs " + bytes(plan.smallest->memory.total()) +
              " per device: " + mesh_text(plan.smallest->mix) + ", " + sharding_text(plan.smallest->mix);
    lines.push_back(line);
  }
  for (const auto& [reason, number] : plan.refused)
    lines.push_back(std::to_string(number) + (number == 1 ? " mesh" : " meshes") + " impossible: " + reason);
  return lines;
}

Table size_table(const std::vector<ProjectedSize>& sizes) {
  Table table({"model", ">devices", "mesh", "sharding", "micro-batches", "recomputed", ">memory", ">step",
               ">tokens/s per device", ">MFU"});
  for (const auto& [model, devices, plan] : sizes) {
    std::vector<std::string> row = {model, count(real(devices))};
    if (plan.fitting.empty()) {
      row.emplace_back("nothing fits");
      row.resize(table.columns.size(), kUnknown);
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
  Table table({"published by", "model", ">devices", "types", ">sequences", "mesh",
               ">tokens/s per device, published", ">projected", ">error", "remark"});
  for (const ProjectedRun& run : runs) {
    const PublishedRun& published = *run.published;
    const bool fits = run.tokens_per_second > 0;
    table.rows.push_back(
        {published.source, published.model, std::to_string(published.devices) + " " + published.hardware,
         to_string(published.problem.precision),
         std::to_string(published.problem.global_batch) + " x " + std::to_string(published.problem.seq_len),
         mesh_text(run.mix) + ", " + sharding_text(run.mix), grouped(published.tokens_per_second),
         fits ? grouped(run.tokens_per_second) : kUnknown, fits ? change(1 + run.error(), 0) : "nothing fits",
         published.note});
  }
  return table;
}
}  // namespace

std::string mfu_text(double mfu) { return mfu > 0 ? percent(mfu, 1) : kUnknown; }

std::string plan_text(const MeshPlan& plan, const std::string& model, size_t top, TableForm form) {
  std::string text = heading(summary(plan, model), form);
  if (!plan.fitting.empty()) text += drawn(plan_table(plan, top), form);
  std::vector<std::string> lines = left_out(plan);
  if (plan.fitting.size() > top)
    lines.insert(lines.begin(),
                 std::to_string(plan.fitting.size() - top) + " more configurations fit (--top)");
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

std::string estimates_text(const std::vector<Estimate>& estimates, const Hardware& hardware, TableForm form) {
  Table table({"rung", "mesh", "sharding", "phases of", "sent per rank and step", ">counted",
               ">step, estimated", ">measured", ">error"});
  for (const Estimate& e : estimates)
    table.rows.push_back({e.rung, mesh_text(e.planned.mix), sharding_text(e.planned.mix), e.from,
                          sends_text(e.planned.cost), or_unknown(e.sent, bytes), duration(e.estimated()),
                          duration(e.measured), change(1 + e.error())});
  return heading(
             "Steps of several ranks, estimated from one device's phases and the link on " + hardware.name,
             form) +
         drawn(table, form);
}

Json estimates_json(const std::vector<Estimate>& estimates, const Hardware& hardware) {
  Json rows = Json::array();
  for (const Estimate& e : estimates)
    rows.push_back({{"rung", e.rung},
                    {"phases_of", e.from},
                    {"planned", planned_json(e.planned)},
                    {"estimated_sent_bytes", e.estimated_sent()},
                    {"counted_sent_bytes", e.sent ? Json(*e.sent) : Json()},
                    {"estimated_seconds", e.estimated()},
                    {"measured_seconds", e.measured},
                    {"error", e.error()}});
  return {{"schema_version", 1}, {"hardware", hardware.name}, {"estimates", rows}};
}

std::string projection_text(const std::vector<ProjectedSize>& sizes, const std::vector<ProjectedRun>& runs,
                            TableForm form) {
  const MeshPlan& plan = sizes.front().plan;
  const std::string batch = count(real(plan.problem.global_batch)) + " sequences of " +
                            count(real(plan.problem.seq_len)) + " tokens per step, " +
                            to_string(plan.problem.precision);
  return heading(
             "Projection, not a measurement: the best configuration of " + plan.hardware.name + ", " + batch,
             form) +
         drawn(size_table(sizes), form) +
         heading("Published measurements, and the projection of the same settings", form) +
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
         {"mix", config_json(run.mix)},
         {"published_tokens_per_second_per_device", run.published->tokens_per_second},
         {"projected_tokens_per_second_per_device", fits ? Json(run.tokens_per_second) : Json()},
         {"error", fits ? Json(run.error()) : Json()},
         {"remark", run.published->note}});
  }
  return {{"schema_version", 1}, {"projection", projected}, {"published", published}};
}
}  // namespace optrush::mesh_plan
