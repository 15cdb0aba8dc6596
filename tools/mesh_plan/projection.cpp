#include "mesh_plan/projection.h"

#include "mesh_plan/problem.h"
#include "spec/presets.h"

namespace optrush::mesh_plan {
namespace {
/// GPT-3 with the vocabulary of the runs. A SwiGLU of two thirds of the width has the same parameters and
/// products as an MLP with two matrices.
LlamaSpec gpt_175b() {
  return {.vocab_size = 131072,
          .dim = 12288,
          .n_layers = 96,
          .n_heads = 96,
          .n_kv_heads = 96,
          .ffn_dim = 32768,
          .tie_embeddings = true};
}

TrainingProblem problem(const LlamaSpec& model, Precision precision, int64_t batch, int64_t seq_len = 8192) {
  return {.model = model, .precision = precision, .seq_len = seq_len, .global_batch = batch};
}

/// Tokens per second of a device from an MFU that counts all scores.
double tokens_of_mfu(double mfu, const TrainingProblem& run) {
  constexpr double peak = 989e12;  // H100 SXM, dense bf16
  return mfu * peak / DecoderWork(run.model).mfu_flops(real(run.seq_len));
}

std::vector<PublishedRun> torchtitan() {
  const std::string december = "torchtitan, benchmarks/llama3_h100_202412_torchtitan.md",
                    june = "torchtitan, benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md";
  const std::string power = "500 W and HBM2e; selective recomputation counted as every 2nd block";
  const LlamaSpec small = llama_preset("llama-3.1-8b"), large = llama_preset("llama-3.1-70b");
  const ParallelConfig eight{
      .dp = 8, .stage = 3, .shard_ranks = 8, .micro_batch = 2, .recompute = Recompute::every_second};
  ParallelConfig many = eight;
  many.dp = many.shard_ranks = 128;
  const ParallelConfig cut{.dp = 8,
                           .tp = 8,
                           .stage = 3,
                           .shard_ranks = 8,
                           .micro_batch = 12,
                           .recompute = Recompute::every_second};
  const ParallelConfig full{
      .dp = 32, .tp = 8, .stage = 3, .shard_ranks = 32, .micro_batch = 16, .recompute = Recompute::full};
  return {
      {december, "Llama 3.1 8B", "h100", power, problem(small, Precision::mixed, 16), 8, eight, 6667},
      {december, "Llama 3.1 8B", "h100", power, problem(small, Precision::mixed, 256), 128, many, 6514},
      {june, "Llama 3.1 8B", "h100", power, problem(small, Precision::mixed, 96), 64, cut, 4378},
      {june, "Llama 3.1 70B", "h100", "500 W and HBM2e", problem(large, Precision::mixed, 512), 256, full,
       597},
  };
}

std::vector<PublishedRun> megatron() {
  const std::string bridge = "Megatron-Bridge, docs/performance-summary-archive.md",
                    readme = "Megatron-LM, README.md, strong scaling";
  const LlamaSpec small = llama_preset("llama-3.1-8b"), large = llama_preset("llama-3.1-70b");
  const TrainingProblem gpt = problem(gpt_175b(), Precision::bf16, 1152, 4096);
  const ParallelConfig sharded{.dp = 8, .stage = 3, .shard_ranks = 8, .accumulation = 16};
  const ParallelConfig piped{.pp = 8, .dp = 2, .tp = 4, .accumulation = 128, .chunks = 5};
  const std::string derived = "published as MFU and converted to tokens/s; best configuration here";
  return {
      {bridge, "Llama 3 8B", "h100", "recomputation not published, none here",
       problem(small, Precision::fp8, 128), 8, sharded, 14451},
      {bridge, "Llama 3 70B", "h100",
       "it overlaps the reductions of tp; recomputation not published, none here",
       problem(large, Precision::fp8, 256), 64, piped, 1621},
      {readme, "GPT 175B", "h100", derived, gpt, 96, {}, tokens_of_mfu(0.47, gpt)},
      {readme, "GPT 175B", "h100", derived, gpt, 4608, {}, tokens_of_mfu(0.42, gpt)},
  };
}

constexpr int64_t kSmallest = 8, kLargest = 4096;

ProjectedRun project(const PublishedRun& run) {
  const Hardware hardware = hardware_preset(run.hardware);
  const auto devices = real(run.devices);
  if (run.has_config()) {
    ParallelConfig mix = run.mix;
    return {&run, mix, cost_of(mix, run.problem, hardware).tokens_per_second / devices};
  }
  const MeshPlan plan = plan_mesh(run.problem, hardware, run.devices, PlanOrder::tokens);
  if (plan.fitting.empty()) return {&run, {}, 0};
  const PlannedConfig& best = plan.fitting.front();
  return {&run, best.mix, best.cost.tokens_per_second / devices};
}
}  // namespace

const std::vector<PublishedRun>& published_runs() {
  static const std::vector<PublishedRun> runs = [] {
    std::vector<PublishedRun> all = torchtitan();
    for (PublishedRun& run : megatron()) all.push_back(std::move(run));
    return all;
  }();
  return runs;
}

std::vector<ProjectedSize> project_sizes(const TrainingProblem& problem, const Hardware& hardware) {
  std::vector<ProjectedSize> sizes;
  for (const char* name : {"llama-3.1-8b", "llama-3.1-70b"}) {
    TrainingProblem own = problem;
    own.model = llama_preset(name);
    for (int64_t devices = kSmallest; devices <= kLargest; devices *= 2)
      sizes.push_back({name, devices, plan_mesh(own, hardware, devices, PlanOrder::tokens)});
  }
  return sizes;
}

std::vector<ProjectedRun> project_published() {
  std::vector<ProjectedRun> runs;
  for (const PublishedRun& run : published_runs()) runs.push_back(project(run));
  return runs;
}
}  // namespace optrush::mesh_plan
