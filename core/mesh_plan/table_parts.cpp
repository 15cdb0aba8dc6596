#include "mesh_plan/table_parts.h"

#include <map>

#include "base/suggest.h"
#include "report/format.h"
#include "report/text_table.h"
#include "report/writers.h"

namespace optrush {
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

std::string batch_text(const Mix& mix) {
  return std::to_string(mix.micro_batch) + " x " + std::to_string(mix.accumulation);
}

std::string sends_text(const MixCost& cost) {
  std::map<std::string, std::pair<double, double>> sums;  // node, network
  for (const Traffic& sent : cost.traffic)
    (sent.ring.over_network ? sums[sent.dimension].second : sums[sent.dimension].first) += sent.bytes;
  std::vector<std::string> parts;
  for (const auto& [dimension, sum] : sums) {
    if (sum.first > 0) parts.push_back(dimension + " " + bytes(sum.first) + " node");
    if (sum.second > 0) parts.push_back(dimension + " " + bytes(sum.second) + " network");
  }
  return parts.empty() ? "nothing" : join(parts);
}

std::string mfu_text(double mfu) { return mfu > 0 ? percent(mfu, 1) : std::string(kUnknown); }

std::vector<std::string> assumptions(const TrainingProblem& problem, const Hardware& hardware) {
  std::vector<std::string> lines = hardware.sources;
  lines.push_back("memory: " + bytes(hardware.memory) + " a device, of which predictions may take " +
                  percent(kUsableMemory, 0) +
                  "; attention without scores, a fused SwiGLU and norms, and a loss without whole logits");
  lines.push_back("types: " + to_string(problem.precision) +
                  "; AdamW with two fp32 moments, and fp32 masters where weights are bf16");
  lines.push_back("nodes of " + std::to_string(hardware.per_node) +
                  " devices; neighbours are ranks of tp, then cp, dp, pp. A ring over nodes uses the network "
                  "links of all its ranks in a node");
  lines.emplace_back(
      "sums of tp are waited for; hops of cp hide behind attention, and their parts are added up; gradients "
      "and parameters hide behind the "
      "passes of their step, at no cost to these, but for one unit at either end");
  lines.emplace_back(
      "1F1B with balanced stages; causal attention does half of the scores; every matrix is multiplied at "
      "one "
      "rate, however small its cut; nothing fails and no device is slower than another");
  return lines;
}

Json mix_json(const Mix& mix) {
  return {{"pp", mix.pp},
          {"dp", mix.dp},
          {"cp", mix.cp},
          {"tp", mix.tp},
          {"stage", mix.stage},
          {"shard_ranks", mix.shard_ranks},
          {"micro_batch", mix.micro_batch},
          {"accumulation", mix.accumulation},
          {"chunks", mix.chunks},
          {"recomputed_share", share_of(mix.recompute)}};
}

Json planned_json(const PlannedMix& planned) {
  const auto& [mix, memory, cost] = planned;
  Json traffic = Json::array();
  for (const Traffic& sent : cost.traffic)
    traffic.push_back({{"dimension", sent.dimension},
                       {"what", sent.what},
                       {"bytes", sent.bytes},
                       {"link", sent.ring.over_network ? "network" : "node"},
                       {"seconds", sent.seconds()}});
  return {{"mix", mix_json(mix)},
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
}  // namespace optrush
