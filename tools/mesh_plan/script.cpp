#include "mesh_plan/script.h"

#include <cctype>
#include <filesystem>

#include "analysis/numbers/format.h"
#include "base/text.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush::mesh_plan {
namespace {
namespace fs = std::filesystem;

std::string quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '\n') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

/// A JSON value as Lua. The keys of objects are names.
std::string lua(const Json& value) {
  if (value.is_string()) return quoted(value.get<std::string>());
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> parts;
  for (const auto& [key, part] : value.items())
    parts.push_back(value.is_object() ? key + " = " + lua(part) : lua(part));
  return parts.empty() ? "{}" : "{ " + join(parts) + " }";
}

std::string lua(const PluginUse& use) {
  return use.options.empty() ? quoted(use.name) : "{ " + quoted(use.name) + ", " + lua(use.options) + " }";
}

/// The model as --model named it, or by its fields.
std::string model_text(const std::vector<std::string>& words, const LlamaSpec& model) {
  const std::string& word = words.front();
  if (words.size() == 1 && fs::is_directory(word))
    return "rush.checkpoint " + quoted(fs::canonical(word).string());
  if (words.size() == 1 && word.find('=') == std::string::npos && !word.ends_with(".json"))
    return "rush.llama " + quoted(word);
  const Json standard = to_json(LlamaSpec{}), given = to_json(model);
  Json fields = Json::object();
  for (const auto& [field, value] : given.items())
    if (value != standard.at(field)) fields[field] = value;
  return "rush.llama " + lua(fields);
}

/// The blocks of each stage, as the plan divides them.
std::string blocks_text(const ParallelConfig& mix, const TrainingProblem& problem) {
  const StageShare first = stages_of(mix, DecoderWork(problem.model), real(problem.seq_len)).front();
  const auto each = static_cast<int64_t>(first.blocks);
  std::string blocks;
  for (int64_t stage = 1; stage < mix.pp; ++stage) blocks += std::to_string(each) + ",";
  return blocks + std::to_string(problem.model.n_layers - each * (mix.pp - 1));
}

Json pipeline_options(const ParallelConfig& mix, const TrainingProblem& problem) {
  if (mix.chunks > 1) return {{"size", mix.pp}, {"schedule", "interleaved"}, {"chunks", mix.chunks}};
  return {{"size", mix.pp}, {"blocks", blocks_text(mix, problem)}};
}

/// "mesh-dp-4-cp-2-stage-3": scripts of other rows write other reports.
std::string name_of(const std::string& mesh) {
  std::string name = "mesh";
  for (bool apart = true; const char c : mesh) {
    const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (word) name += (apart ? "-" : "") + std::string(1, c);
    apart = !word;
  }
  return name;
}
}  // namespace

std::vector<PluginUse> strategies_of(const ParallelConfig& mix, const TrainingProblem& problem) {
  std::vector<PluginUse> plugins;
  if (mix.pp > 1) plugins.push_back({"pipeline_parallel", pipeline_options(mix, problem)});
  if (mix.cp > 1) plugins.push_back({"context_parallel", {{"size", mix.cp}}});
  if (mix.tp > 1) plugins.push_back({"tensor_parallel", {{"size", mix.tp}, {"sequence", true}}});
  if (mix.ep > 1) plugins.push_back({"expert_parallel", {{"size", mix.ep}}});
  if (mix.stage > 0) {
    Json options = {{"stage", mix.stage}};
    if (mix.shard_ranks != mix.replicas()) options["shard_ranks"] = mix.shard_ranks;
    plugins.push_back({"fsdp", options});
  } else if (mix.replicas() > 1) {
    plugins.push_back({"ddp"});
  }
  return plugins;
}

std::vector<PluginUse> operators_of(const ParallelConfig& mix, const TrainingProblem& problem) {
  std::vector<PluginUse> plugins = {{"flash_attention"}, {"fused_kernels"}, {"fused_linear_cross_entropy"}};
  const Precision precision = problem.precision;
  if (precision == Precision::bf16 || precision == Precision::fp8) plugins.push_back({"bf16_weights"});
  if (precision == Precision::fp8) plugins.push_back({"float8"});
  if (precision == Precision::mixed) plugins.push_back({"mixed_precision"});
  if (precision == Precision::mixed || precision == Precision::fp32) plugins.push_back({"fused_adamw"});
  if (mix.recompute != Recompute::none)
    plugins.push_back(
        {"activation_checkpointing", {{"policy", mix.recompute == Recompute::full ? "full" : "every"}}});
  return plugins;
}

std::string script_text(const MeshPlan& plan, size_t row, const std::vector<std::string>& model) {
  if (row < 1 || row > plan.fitting.size())
    throw UsageError("the plan has no row " + std::to_string(row),
                     plan.fitting.empty() ? "no configuration fits; give more devices"
                                          : "give a row from 1 to " + std::to_string(plan.fitting.size()));
  const auto& [mix, memory, cost] = plan.fitting[row - 1];
  const std::string name = mesh_text(mix) + ", " + sharding_text(mix);
  const Json train = {{"world_size", plan.devices},
                      {"micro_batch", mix.micro_batch},
                      {"accumulation", mix.accumulation},
                      {"seq_len", plan.problem.seq_len},
                      {"steps", 4},
                      {"warmup", 2}};
  std::string plugins;
  for (const auto& part : {operators_of(mix, plan.problem), strategies_of(mix, plan.problem)})
    for (const PluginUse& use : part) plugins += "    " + lua(use) + ",\n";
  return "-- Row " + std::to_string(row) + " of optrush plan-mesh: " + name + ". Predicted for " +
         plan.hardware.name + ": " + bytes(memory.total()) + " and " +
         grouped(cost.tokens_per_second / real(plan.devices)) + " tokens/s per device.\n" +
         "local rush = require \"optrush\"\n\nlocal exp = rush.experiment {\n  name = " +
         quoted(name_of(name)) + ",\n" + "  question = \"How fast is " + name + " on " +
         std::to_string(plan.devices) + " devices?\",\n" +
         "  model = " + model_text(model, plan.problem.model) + ",\n" +
         "  data = rush.text(rush.corpus \"libtorch\"), -- or your data\n  plugins = {\n" + plugins +
         "  },\n  train = " + lua(train) + ",\n}\n\nexp:run({ rounds = 3 }):report()\n";
}
}  // namespace optrush::mesh_plan
