#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace optrush {
/// In what types a model trains. mixed: fp32 weights, matrix products in bf16. bf16: weights, gradients and
/// residual stream in bf16, fp32 masters. fp8: the same, with the products of blocks in fp8.
enum class Precision : uint8_t { fp32, mixed, bf16, fp8 };

const std::vector<std::string>& precision_names();
/// An Error names the nearest.
Precision precision_from(const std::string& name);
std::string to_string(Precision);

/// Bytes of a number, by what it is.
struct NumberBytes {
  double weight = 4;      ///< as it is kept
  double copy = 0;        ///< of a matrix, for its products, beside the weight; for a step
  double operand = 4;     ///< of a matrix, as products read it and shards are gathered
  double gradient = 4;    ///< of one micro-batch
  double kept = 4;        ///< gradients that several micro-batches add up
  double optimizer = 8;   ///< AdamW's moments, and masters where weights are bf16
  double stream = 4;      ///< the residual stream
  double activation = 4;  ///< what a block computes inside

  explicit NumberBytes(Precision);
  /// Gradients at the end of a step of this many micro-batches.
  double gradients(int64_t micro_batches) const { return micro_batches > 1 ? kept : gradient; }
  /// That an update of one parameter reads and writes.
  double update(int64_t micro_batches) const;
};
}  // namespace optrush
