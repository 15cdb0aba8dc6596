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
  if (precision == Precision::fp8) copy = 2;  // a row-wise and a column-wise one, of a byte each
}

double NumberBytes::update(int64_t micro_batches) const {
  const double weights = optimizer > 8 ? weight : 2 * weight;  // with masters the weight is only written
  return gradients(micro_batches) + 2 * optimizer + weights;
}

DecoderWork::DecoderWork(const LlamaSpec& spec)
    : blocks(static_cast<double>(spec.n_layers)),
      width(static_cast<double>(spec.dim)),
      heads(static_cast<double>(spec.n_heads)),
      key_heads(static_cast<double>(spec.n_kv_heads)),
      query_width(static_cast<double>(spec.n_heads * spec.head_size())),
      key_width(static_cast<double>(spec.n_kv_heads * spec.head_size())),
      ffn_width(static_cast<double>(spec.ffn_dim)),
      embedding(static_cast<double>(spec.vocab_size * spec.dim)),
      tied(spec.tie_embeddings) {
  const double vectors = spec.norm == NormKind::rmsnorm ? 1 : spec.norm == NormKind::layernorm ? 2 : 0;
  final_norm = vectors * width;
  block_vectors = 2 * final_norm;
}

double DecoderWork::parameters() const {
  return blocks * (block_matrices() + block_vectors) + final_norm + embedding * (tied ? 1 : 2);
}

double DecoderWork::mfu_flops(double seq_len) const {
  return 6 * (blocks * block_matrices() + embedding) + 12 * blocks * query_width * seq_len;
}
}  // namespace optrush::mesh_plan
