#include "mesh_plan/config_memory.h"

#include <algorithm>
#include <cmath>

namespace optrush::mesh_plan {
namespace {
constexpr double kGiB = 1024.0 * 1024 * 1024;

/// Tokens of a micro-batch on one rank.
double tokens_of(const ParallelConfig& mix, const TrainingProblem& problem) {
  return real(mix.micro_batch * problem.seq_len) / real(mix.cp);
}

/// Ranks that divide keys and values. With more ranks than heads, several ranks hold the same head.
double key_cuts(const ParallelConfig& mix, const DecoderWork& work) {
  return std::min(real(mix.tp), work.key_heads);
}

/// arXiv:2205.05198, section 4.2.3: the first of p stages holds p micro-batches, and with v chunks per stage
/// (p - 1) / (p v) more.
double first_in_flight(const ParallelConfig& mix) {
  const double p = real(mix.pp), chunks = real(mix.chunks);
  const double held = mix.chunks == 1 ? p : p + (p - 1) / chunks;
  return std::min(held, real(mix.accumulation));
}

/// Whole parameters beside the shards: all of them, or the current unit and the next one.
double gathered(const ParallelConfig& mix, const DecoderWork& work, const StageShare& stage,
                const LocalParameters& local, double unit, const NumberBytes& bytes) {
  const double matrices = mix.stage < 3 ? local.matrices : unit + local.block;
  const bool casts = bytes.weight != bytes.operand;  // the gathered tensor is the copy
  const double all = matrices * (bytes.operand + (casts ? 0 : bytes.copy));
  if (!casts || !stage.embedding) return all;
  // An embedding is not cast. If the head uses it as its matrix, there is also a copy.
  return all + local.vocabulary * (bytes.weight - (work.tied ? 0 : bytes.operand));
}

/// Tokens in a chunk of the fused loss on a GPU.
double tokens_of_chunk(double tokens, double row_bytes) {
  const double most =
      std::max(std::floor(kGiB / row_bytes), std::min(4096.0, std::floor(2 * kGiB / row_bytes)));
  return std::ceil(tokens / std::ceil(tokens / most));
}

/// The loss computes the gradients of its input and of its matrix in the forward.
struct HeadMemory {
  double kept = 0;     ///< kept for the backward
  double passing = 0;  ///< held while the loss is computed
};
HeadMemory head_memory(const ParallelConfig& mix, const TrainingProblem& problem, const DecoderWork& work,
                       const LocalParameters& local) {
  const NumberBytes bytes(problem.precision);
  const double tokens = tokens_of(mix, problem), vocabulary = local.vocabulary / work.width;
  const double chunk = tokens_of_chunk(tokens, vocabulary * bytes.activation);
  // One kernel overwrites logits with their gradients. With a part of the vocabulary, operators also hold the
  // logits and their softmax in fp32.
  const double logit = bytes.activation + (mix.tp == 1 ? 0 : (bytes.activation < 4 ? 4 : 0) + 4);
  const bool sums = mix.tp > 1 || chunk < tokens;  // products of several chunks, in fp32
  return {.kept = tokens * work.width * (bytes.activation + 2 * bytes.stream) +
                  local.vocabulary * bytes.activation,
          .passing = chunk * vocabulary * logit + (sums ? 4 * local.vocabulary : 0)};
}

/// Memory of the backward of one block beside the saved tensors: gradients inside its MLP, or inside one
/// expert at a time, and of its input. A mixture adds the gradients of its rows.
double block_backward(const ParallelConfig& mix, const TrainingProblem& problem, const DecoderWork& work) {
  const double experts = std::max(1.0, real(problem.model.n_experts) / real(mix.ep));
  const double width = std::max(work.whole_ffn_width, (work.ffn_width - work.whole_ffn_width) / experts);
  return tokens_of(mix, problem) * (3 * width / real(mix.tp) + 2 * (1 + work.rows) * work.width) *
         NumberBytes(problem.precision).activation;
}

/// Bytes of a gradient's copy in the type in which micro-batches add it up; 0 if it has this type.
double cast_bytes(const ParallelConfig& mix, const NumberBytes& bytes) {
  const double kept = bytes.gradients(mix.accumulation);
  return kept == bytes.gradient ? 0 : kept;
}

/// Gradients of the vocabulary's matrix, whole, beside which shards that add gradients up are made of the
/// block above or below it: in both types, if these differ.
double vocabulary_gradients(const ParallelConfig& mix, const NumberBytes& bytes,
                            const LocalParameters& local) {
  const double cast = cast_bytes(mix, bytes);
  const double beside = mix.stage >= 2 && cast > 0 ? local.block : 0;
  return (local.vocabulary + beside) * (bytes.gradient + cast);
}

/// The backward begins with a cast of the head's gradient.
double first_reductions(const ParallelConfig& mix, const NumberBytes& bytes, const LocalParameters& local) {
  const double cast = cast_bytes(mix, bytes);
  return mix.stage < 2 || cast == 0 ? local.vocabulary * cast : vocabulary_gradients(mix, bytes, local);
}

ConfigMemory stage_memory(const ParallelConfig& mix, const TrainingProblem& problem, const DecoderWork& work,
                          const StageShare& stage) {
  const NumberBytes bytes(problem.precision);
  const LocalParameters local = local_parameters(mix, work, stage);
  const double sharded = mix.stage == 0 ? local.total : local.in_shards(mix);
  const double unit = std::max(local.block, stage.embedding || stage.head ? local.vocabulary : 0);
  ConfigMemory memory;
  if (mix.stage == 0)
    memory.parameters = local.total * bytes.weight + local.matrices * bytes.copy;
  else
    memory.parameters = sharded * bytes.weight + gathered(mix, work, stage, local, unit, bytes);
  const double kept = bytes.gradients(mix.accumulation);
  memory.gradients = (mix.stage >= 2 ? sharded : local.total) * kept;
  if (mix.stage >= 2) memory.gradients += unit * kept;  // of one unit, whole
  memory.together = mix.accumulation > 1 || (mix.stage == 0 && mix.replicas() > 1);
  memory.optimizer = sharded * bytes.optimizer;

  const double whole = block_activations(mix, problem);
  const double input = tokens_of(mix, problem) * work.width * bytes.stream / real(mix.tp);
  const double again = share_of(mix.recompute);
  const double block = again * input + (1 - again) * whole;
  const HeadMemory head = stage.head ? head_memory(mix, problem, work, local) : HeadMemory{};
  const double of_blocks = stage.in_flight * stage.blocks * block;
  memory.working = (again > 0 ? whole : 0) + block_backward(mix, problem, work);
  const double reducing = stage.head ? first_reductions(mix, bytes, local) : 0;
  memory.activations = of_blocks + head.kept + std::max({head.passing, memory.working, reducing});
  if (mix.pp > 1 && stage.embedding)  // at the end of a micro-batch's backward, beside the others in flight
    memory.activations =
        std::max(memory.activations, of_blocks - std::floor(stage.blocks / real(mix.chunks)) * block +
                                         vocabulary_gradients(mix, bytes, local));
  if (mix.cp > 1)  // keys and values being received, and their gradients
    memory.activations +=
        4 * tokens_of(mix, problem) * work.key_width / key_cuts(mix, work) * bytes.activation;
  if (mix.pp > 1 && !stage.head)  // its output, until the gradient of the output arrives
    memory.activations += (stage.in_flight + 1) * input;
  return memory;
}
}  // namespace

std::vector<StageShare> stages_of(const ParallelConfig& mix, const DecoderWork& work, double seq_len) {
  if (mix.pp == 1) return {{.blocks = work.blocks, .embedding = true, .head = true}};
  const double head = work.head_products() / (work.block_products() + work.block_attention(seq_len));
  const double others = real(mix.pp - 1);
  double last = 0, slowest = INFINITY;
  for (double blocks = 0; blocks <= work.blocks - others; ++blocks) {
    const double time = std::max(std::ceil((work.blocks - blocks) / others), blocks + head);
    if (time > slowest) break;
    slowest = time;
    last = blocks;
  }
  return {{.blocks = std::ceil((work.blocks - last) / others),
           .embedding = true,
           .in_flight = first_in_flight(mix)},
          {.blocks = last, .head = true}};
}

LocalParameters local_parameters(const ParallelConfig& mix, const DecoderWork& work,
                                 const StageShare& stage) {
  const double tp = real(mix.tp);
  LocalParameters local;
  const double whole = work.width * ((2 * work.query_width + 3 * work.whole_ffn_width) / tp +
                                     2 * work.key_width / key_cuts(mix, work)) +
                       work.routers;
  local.block_matrix = whole + work.experts / real(mix.ep) / tp;
  local.block_products = whole + 3 * work.width * (work.ffn_width - work.whole_ffn_width) / tp;
  local.experts = stage.blocks * work.experts / real(mix.ep) / tp;
  local.block = local.block_matrix + work.block_vectors;
  local.vocabulary = work.embedding / tp;
  const bool twice = stage.embedding && stage.head && !work.tied;
  const double vocabulary = (stage.embedding || stage.head) ? (twice ? 2 : 1) * local.vocabulary : 0;
  local.matrices = stage.blocks * local.block_matrix + vocabulary;
  local.total = stage.blocks * local.block + vocabulary + (stage.head ? work.final_norm : 0);
  return local;
}

double block_activations(const ParallelConfig& mix, const TrainingProblem& problem) {
  const DecoderWork work(problem.model);
  const NumberBytes bytes(problem.precision);
  const double tp = real(mix.tp);
  const double stream = 2 * work.width / tp;  // the inputs of both norms
  // The inputs of attention and of the MLP, which tp gathers; queries and the attention's result; gate, up
  // and their product; keys and values.
  const double inside = 2 * work.width + (2 * work.query_width + 3 * work.ffn_width) / tp +
                        2 * work.key_width / key_cuts(mix, work) +
                        2 * work.rows * work.width +       // a mixture's rows, and the outputs of its experts
                        work.shared_experts * work.width;  // the output of its shared expert
  const double statistics = 4 * (2 / tp + work.heads / tp);  // of norms, and attention's log-sum-exps; fp32
  return tokens_of(mix, problem) * (stream * bytes.stream + inside * bytes.activation + statistics);
}

ConfigMemory memory_of(const ParallelConfig& mix, const TrainingProblem& problem) {
  const DecoderWork work(problem.model);
  ConfigMemory fullest;
  for (const StageShare& stage : stages_of(mix, work, real(problem.seq_len))) {
    const ConfigMemory memory = stage_memory(mix, problem, work, stage);
    if (memory.total() > fullest.total()) fullest = memory;
  }
  return fullest;
}
}  // namespace optrush::mesh_plan
