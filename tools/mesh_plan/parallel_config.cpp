#include "mesh_plan/parallel_config.h"

#include "base/text.h"

namespace optrush::mesh_plan {
namespace {
std::string text(int64_t number) { return std::to_string(number); }

std::vector<int64_t> divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= number; ++i)
    if (number % i == 0) divisors.push_back(i);
  return divisors;
}

std::string refused_cut(const ParallelConfig& mix, const TrainingProblem& problem) {
  const LlamaSpec& model = problem.model;
  if (model.has_latents()) return "latent attention is not planned; a forecast of a rung knows its memory";
  if (model.has_mixed_heads())
    return "heads of two sizes are not planned; a forecast of a rung knows its memory";
  if (model.carries())
    return "per_layer_input_dim and kv_shared_layers are not planned; a forecast of a rung knows their "
           "memory";
  if (const char* linear = model.linear_attention())
    return std::string(linear) + " is not planned; a forecast of a rung knows its memory";
  if (!model.has_gate() || !model.layers_without_mlp.empty())
    return "MLPs without a gate and layers without an MLP are not planned; a forecast of a rung knows its "
           "memory";
  if (model.n_heads % mix.tp != 0) return "tp does not divide the " + text(model.n_heads) + " heads";
  if (model.n_kv_heads % mix.tp != 0 && mix.tp % model.n_kv_heads != 0)
    return "tp neither divides the " + text(model.n_kv_heads) + " key/value heads nor is a multiple of them";
  // Causal attention takes equally long on all ranks if each has two parts, one from either end.
  const int64_t parts = mix.cp == 1 ? mix.tp : 2 * mix.cp * mix.tp;
  if (mix.ep > 1 && (model.n_experts == 0 || model.n_experts % mix.ep != 0))
    return "ep does not divide the " + text(model.n_experts) + " experts";
  if (problem.seq_len % parts != 0)
    return "the " + text(problem.seq_len) + " positions cannot be split into 2 x cp x tp parts";
  return {};
}
}  // namespace

double share_of(Recompute recompute) { return static_cast<double>(recompute) / 2; }

std::string to_string(Recompute recompute) {
  static const std::vector<std::string> names = {"none", "every 2nd", "full"};
  return names.at(static_cast<size_t>(recompute));
}

std::string mesh_text(const ParallelConfig& mix) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, int64_t size) {
    if (size > 1) parts.push_back(std::string(name) + " " + text(size));
  };
  add("pp", mix.pp);
  add("dp", mix.dp);
  add("cp", mix.cp);
  add("ep", mix.ep);
  add("tp", mix.tp);
  return parts.empty() ? "one device" : join(parts);
}

std::string sharding_text(const ParallelConfig& mix) {
  if (mix.replicas() == 1) return "one copy";
  if (mix.stage == 0) return "copies";
  return "stage " + text(mix.stage) +
         (mix.shard_ranks == mix.replicas() ? "" : " over " + text(mix.shard_ranks));
}

std::string refusal(const ParallelConfig& mix, const TrainingProblem& problem) {
  if (std::string cut = refused_cut(mix, problem); !cut.empty()) return cut;
  if (mix.pp * mix.chunks > problem.model.n_layers)
    return "pp has more parts than the " + text(problem.model.n_layers) + " blocks";
  if (problem.global_batch % (mix.batch_ranks() * mix.micro_batch) != 0)
    return std::string(mix.ep > 1 ? "dp x ep" : "dp") + " does not divide the " + text(problem.global_batch) +
           " sequences of a step";
  if (mix.batch_ranks() * mix.micro_batch * mix.accumulation != problem.global_batch)
    return "the micro-batches do not add up to the sequences of a step";
  if (mix.chunks > 1 && (mix.pp == 1 || mix.accumulation % mix.pp != 0))
    return "interleaved chunks need pp, and a number of micro-batches that is a multiple of pp";
  if (mix.replicas() % mix.shard_ranks != 0 || (mix.stage > 0) != (mix.shard_ranks > 1))
    return "the shards are held by a part of the replicas only";
  if (mix.ep > 1 && mix.shard_ranks > 1 && mix.shard_ranks != mix.replicas())
    return "shards over a part of the replicas are not planned with ep";
  return {};
}

std::vector<ParallelConfig> meshes_of(int64_t devices, int64_t experts) {
  std::vector<ParallelConfig> meshes;
  for (const int64_t pp : divisors_of(devices))
    for (const int64_t dp : divisors_of(devices / pp))
      for (const int64_t cp : divisors_of(devices / pp / dp))
        for (const int64_t ep : divisors_of(devices / pp / dp / cp))
          if (ep == 1 || (experts > 0 && experts % ep == 0))
            meshes.push_back({.pp = pp, .dp = dp, .cp = cp, .tp = devices / pp / dp / cp / ep, .ep = ep});
  return meshes;
}

std::vector<ParallelConfig> shardings_of(const ParallelConfig& mesh, int64_t per_node) {
  std::vector<ParallelConfig> shardings = {mesh};
  const int64_t all = mesh.replicas(), near = per_node / mesh.tp;
  for (int64_t stage = 1; stage <= 3 && all > 1; ++stage) {
    ParallelConfig mix = mesh;
    mix.stage = stage;
    mix.shard_ranks = all;
    shardings.push_back(mix);
    if (mesh.ep > 1 || near <= 1 || near >= all || all % near != 0) continue;
    mix.shard_ranks = near;
    shardings.push_back(mix);
  }
  return shardings;
}

std::vector<ParallelConfig> schedules_of(const ParallelConfig& sharded, const TrainingProblem& problem) {
  std::vector<ParallelConfig> schedules;
  for (int64_t batch = 1; batch * sharded.batch_ranks() <= problem.global_batch; batch *= 2)
    for (const Recompute recompute : {Recompute::none, Recompute::every_second, Recompute::full})
      for (int64_t chunks = 1; chunks == 1 || 2 * sharded.pp * chunks <= problem.model.n_layers;
           chunks *= 2) {
        ParallelConfig mix = sharded;
        mix.micro_batch = batch;
        mix.accumulation = problem.global_batch / (sharded.batch_ranks() * batch);
        mix.recompute = recompute;
        mix.chunks = chunks;
        if (refusal(mix, problem).empty()) schedules.push_back(mix);
        if (sharded.pp == 1) break;
      }
  return schedules;
}
}  // namespace optrush::mesh_plan
