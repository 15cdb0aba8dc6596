#include "slices.h"

#include <ATen/Functions.h>

namespace optrush::context_parallel {
namespace {
/// Labels that count. If all labels of the whole batch count, the device is not asked.
int64_t valid_of(const Tensor& labels, bool all) {
  return all ? labels.numel() : labels.ge(0).sum().item<int64_t>();
}
/// The places of tokens in the slices.
Tensor filled_in(const std::vector<Stretch>& slices, const Batch& whole) {
  const Tensor holds = at::zeros(whole.tokens.sizes(), whole.tokens.options().dtype(at::kBool));
  holds.view(-1).index_fill_(0, whole.filled, 1);
  return taken(holds, slices).flatten().nonzero().flatten();
}
}  // namespace

std::vector<Stretch> slices_of(int64_t length, int64_t ranks, int64_t rank, bool zigzag) {
  if (!zigzag) return {{rank * (length / ranks), length / ranks}};
  const int64_t stretch = length / (2 * ranks);
  return {{rank * stretch, stretch}, {(2 * ranks - 1 - rank) * stretch, stretch}};
}

Tensor taken(const Tensor& whole, const std::vector<Stretch>& slices) {
  if (!whole.defined()) return whole;
  Tensors parts;
  for (const auto& [begin, length] : slices) parts.push_back(whole.narrow(1, begin, length));
  return at::cat(parts, 1);
}

Batch slice_of(Batch batch, int64_t ranks, int64_t rank, bool zigzag) {
  const int64_t length = batch.tokens.size(1);
  const bool all_count = batch.valid_tokens == batch.labels.numel();
  const auto slices = slices_of(length, ranks, rank, zigzag);
  if (batch.filled.defined()) batch.filled = filled_in(slices, batch);
  for (Tensor* tensor : {&batch.tokens, &batch.labels, &batch.positions}) *tensor = taken(*tensor, slices);
  for (auto& [name, tensor] : batch.named)
    if (tensor.dim() > 1 && tensor.size(1) == length) tensor = taken(tensor, slices);
  batch.valid_tokens = valid_of(batch.labels, all_count);
  return batch;
}
}  // namespace optrush::context_parallel
