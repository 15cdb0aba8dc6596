#include "mesh_plan/problem.h"

#include <algorithm>

#include "base/suggest.h"
#include "optrush/error.h"

namespace optrush::mesh_plan {
const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = {"fp32", "mixed", "bf16", "fp8"};
  return names;
}

Precision precision_from(const std::string& name) {
  const auto& names = precision_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw UsageError(ErrorCode::unknown_name, "unknown precision '" + name + "'", did_you_mean(name, names),
                     "--dtype");
  return static_cast<Precision>(found - names.begin());
}

std::string to_string(Precision precision) { return precision_names().at(static_cast<size_t>(precision)); }

NumberBytes::NumberBytes(Precision precision) {
  if (precision == Precision::fp32) return;
  operand = activation = 2;
  if (precision == Precision::mixed) {
    copy = 2;
    return;
  }
  weight = gradient = stream = 2;
  optimizer = 12;
  if (precision == Precision::fp8) copy = 2;  // a row-wise and a column-wise copy of one byte each
}

double NumberBytes::update(int64_t micro_batches) const {
  const double weights = optimizer > 8 ? weight : 2 * weight;  // with masters a weight is only written
  return gradients(micro_batches) + 2 * optimizer + weights;
}

DecoderWork::DecoderWork(const LlamaSpec& spec)
    : blocks(static_cast<double>(spec.n_layers)),
      width(static_cast<double>(spec.dim)),
      heads(static_cast<double>(spec.n_heads)),
      key_heads(static_cast<double>(spec.n_kv_heads)),
      query_width(static_cast<double>(spec.n_heads * spec.head_size())),
      key_width(static_cast<double>(spec.n_kv_heads * spec.head_size())),
      embedding(static_cast<double>(spec.vocab_size * spec.dim)),
      tied(spec.tie_embeddings) {
  const double vectors = spec.norm == NormKind::rmsnorm ? 1 : spec.norm == NormKind::layernorm ? 2 : 0;
  final_norm = vectors * width;
  block_vectors = 2 * final_norm;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) add_mlp(spec, layer);
  for (double* of_all : {&ffn_width, &whole_ffn_width, &shared_ffn_width, &mixtures, &shared_experts,
                         &experts, &routers, &rows})
    *of_all /= blocks;
}

void DecoderWork::add_mlp(const LlamaSpec& spec, int64_t layer) {
  if (!spec.has_experts(layer)) {
    ffn_width += static_cast<double>(spec.ffn_dim);
    whole_ffn_width += static_cast<double>(spec.ffn_dim);
    return;
  }
  const auto count = static_cast<double>(spec.n_experts),
             passed = static_cast<double>(spec.experts_per_token);
  const auto expert = static_cast<double>(spec.expert_ffn_dim != 0 ? spec.expert_ffn_dim : spec.ffn_dim);
  const auto shared = static_cast<double>(spec.shared_expert_ffn_dim);
  ffn_width += passed * expert + shared;
  whole_ffn_width += shared;
  shared_ffn_width += shared;
  mixtures += 1;
  shared_experts += shared > 0 ? 1 : 0;
  experts += count * 3 * width * expert;
  routers += width * (count + (shared > 0 && spec.shared_expert_gate ? 1 : 0));
  rows += passed;
}

double DecoderWork::parameters() const {
  return blocks * (block_matrices() + block_vectors) + final_norm + embedding * (tied ? 1 : 2);
}

double DecoderWork::mfu_flops(double seq_len) const {
  return 6 * (blocks * block_products() / 2 + embedding) + 12 * blocks * query_width * seq_len;
}
}  // namespace optrush::mesh_plan
