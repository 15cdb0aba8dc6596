#include "mesh_plan/config_cost.h"

#include <algorithm>

namespace optrush::mesh_plan {
namespace {
/// FLOP/s of the matrices of blocks.
double products_per_second(const TrainingProblem& problem, const Hardware& hardware) {
  return problem.precision == Precision::fp8 ? hardware.fp8_flops : hardware.flops;
}

/// One micro-batch.
double attention_seconds(const ParallelConfig& mix, const TrainingProblem& problem, const DecoderWork& work,
                         const Hardware& hardware) {
  const double tokens = real(mix.micro_batch * problem.seq_len) / real(mix.cp * mix.tp);
  return tokens * work.block_attention(real(problem.seq_len)) / hardware.flops;
}

/// The time to add each part that arrives over the ring to the attention's result, or to the gradient of its
/// queries, in one pass. Both are read and written in fp32.
double merging_seconds(const ParallelConfig& mix, const TrainingProblem& problem, const DecoderWork& work,
                       const Hardware& hardware) {
  if (mix.cp == 1) return 0;
  const double tokens = real(mix.micro_batch * problem.seq_len) / real(mix.cp * mix.tp);
  const double bytes = NumberBytes(problem.precision).activation + 2 * 4;
  return real(mix.cp - 1) * tokens * work.query_width * bytes / hardware.memory_bandwidth;
}

/// Seconds of one micro-batch. A shared expert, or its backward, overlaps every second exchange.
double exposed_rows(const MixTraffic& rows, const ParallelConfig& mix, const TrainingProblem& problem,
                    const DecoderWork& work, const StageShare& stage, const Hardware& hardware) {
  const double tokens = real(mix.micro_batch * problem.seq_len) / real(mix.cp * mix.tp);
  const double shared =
      tokens * 6 * work.width * work.shared_ffn_width / products_per_second(problem, hardware);
  const double one = rows.seconds() / rows.rounds, again = share_of(mix.recompute);
  return stage.blocks *
         ((2 + again) * one + (1 + again) * std::max(0.0, one - shared) + std::max(0.0, one - 2 * shared));
}

struct Exposed {
  double in_pass = 0;  ///< every micro-batch waits for it, so the bubble also contains it
  double beside = 0;   ///< once per step
};

/// Parameters and gradients of the replicas. Forward gathers hide behind forwards, the rest behind backwards.
double exposed_replicas(const std::vector<MixTraffic>& traffic, const ParallelConfig& mix,
                        const PassSeconds& pass) {
  const double micro_batches = real(mix.accumulation);
  double forward = 0, backward = 0, edges = 0;
  for (const MixTraffic& sent : traffic) {
    if (sent.dimension != "dp" || sent.rounds == 0) continue;
    const double seconds = sent.seconds();
    edges += seconds / sent.rounds;
    if (sent.what != "parameters") {
      backward += seconds;
    } else {
      forward += mix.stage == 3 ? seconds / 2 : seconds;
      backward += mix.stage == 3 ? seconds / 2 : 0;
    }
  }
  const double forwards = pass.forward * (mix.stage == 3 ? micro_batches : 1);
  const double backwards = pass.backward * (mix.stage >= 2 ? micro_batches : 1);
  const double uncovered = std::max(0.0, forward - forwards) + std::max(0.0, backward - backwards);
  return std::min(forward + backward, uncovered + edges);
}

Exposed exposed_of(const std::vector<MixTraffic>& traffic, const ParallelConfig& mix,
                   const TrainingProblem& problem, const DecoderWork& work, const StageShare& stage,
                   const PassSeconds& pass, const Hardware& hardware) {
  Exposed exposed;
  for (const MixTraffic& sent : traffic) {
    if (sent.dimension == "tp") exposed.in_pass += sent.seconds() / real(mix.accumulation);
    if (sent.dimension == "ep") exposed.in_pass += exposed_rows(sent, mix, problem, work, stage, hardware);
    if (sent.dimension == "cp") {  // in the forward, the attention of a part overlaps the next hop
      const double hops = real(mix.cp - 1);
      const double hop = ring_message(mix, problem) / sent.ring.hop + sent.ring.latency / hops;
      const double part = attention_seconds(mix, problem, work, hardware) / real(mix.cp);
      exposed.in_pass += stage.blocks * hops * ring_messages(mix, problem) * std::max(0.0, hop - part);
    }
    if (sent.what == "boundaries")  // while the pipeline fills and empties
      exposed.beside += 2 * real(mix.pp - 1) * sent.seconds() / sent.rounds;
    if (sent.what == "tied embedding") exposed.beside += sent.seconds();
  }
  exposed.beside += exposed_replicas(traffic, mix, pass);
  return exposed;
}

ConfigCost stage_cost(const ParallelConfig& mix, const TrainingProblem& problem, const DecoderWork& work,
                      const StageShare& stage, const Hardware& hardware) {
  const PassSeconds pass = pass_seconds(mix, problem, stage, hardware);
  const double micro_batches = real(mix.accumulation);
  const double waits = real(mix.pp - 1) / real(mix.chunks);  // in micro-batches
  ConfigCost cost;
  cost.traffic = traffic_of(mix, problem, stage, hardware);
  const Exposed exposed = exposed_of(cost.traffic, mix, problem, work, stage, pass, hardware);
  cost.compute = micro_batches * (pass.forward + pass.backward);
  cost.bubble = waits * (pass.forward + pass.backward + exposed.in_pass);
  cost.exposed = micro_batches * exposed.in_pass + exposed.beside;
  const LocalParameters local = local_parameters(mix, work, stage);
  cost.optimizer = (mix.stage == 0 ? local.total : local.in_shards(mix)) *
                   NumberBytes(problem.precision).update(mix.accumulation) / hardware.memory_bandwidth;
  return cost;
}
}  // namespace

PassSeconds pass_seconds(const ParallelConfig& mix, const TrainingProblem& problem, const StageShare& stage,
                         const Hardware& hardware) {
  const DecoderWork work(problem.model);
  const double tokens = real(mix.micro_batch * problem.seq_len) / real(mix.cp);
  const double block = tokens * 2 * local_parameters(mix, work, stage).block_products /
                           products_per_second(problem, hardware) +
                       attention_seconds(mix, problem, work, hardware);
  const double merging = stage.blocks * merging_seconds(mix, problem, work, hardware);
  const double blocks = stage.blocks * block, again = share_of(mix.recompute);
  const double head = stage.head ? tokens * work.head_products() / real(mix.tp) / hardware.flops : 0;
  return {blocks + merging + head, (2 + again) * blocks + (1 + again) * merging + 2 * head};
}

ConfigCost cost_of(const ParallelConfig& mix, const TrainingProblem& problem, const Hardware& hardware) {
  const DecoderWork work(problem.model);
  ConfigCost slowest;
  for (const StageShare& stage : stages_of(mix, work, real(problem.seq_len))) {
    ConfigCost cost = stage_cost(mix, problem, work, stage, hardware);
    if (cost.step() > slowest.step()) slowest = std::move(cost);
  }
  const double tokens = real(problem.global_batch * problem.seq_len);
  slowest.tokens_per_second = tokens / slowest.step();
  if (hardware.peak_flops > 0)
    slowest.mfu = slowest.tokens_per_second * work.mfu_flops(real(problem.seq_len)) /
                  (real(mix.devices()) * hardware.peak_flops);
  return slowest;
}
}  // namespace optrush::mesh_plan
