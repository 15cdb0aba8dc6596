#include "train/loss_sums.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

namespace optrush {
void count_step(const Session& session, std::span<Batch> batches) {
  const Mesh& mesh = session.mesh();
  double tokens = 0, sequences = 0;
  for (const Batch& batch : batches) {
    tokens += static_cast<double>(batch.valid_tokens);
    sequences += static_cast<double>(batch.valid_sequences);
  }
  if (session.ranks().alone) {
    const auto ranks = static_cast<double>(mesh.size(mesh.data()));
    tokens *= ranks;
    sequences *= ranks;
  } else {
    const Tensor sums =
        at::stack({at::scalar_tensor(tokens, at::kDouble), at::scalar_tensor(sequences, at::kDouble)});
    mesh.group(mesh.data()).all_reduce(sums).wait();
    tokens = sums[0].item<double>();
    sequences = sums[1].item<double>();
  }
  for (Batch& batch : batches) {
    batch.token_count = tokens;
    // Ranks that split sequences among them each count all sequences.
    batch.sequence_count = sequences / static_cast<double>(mesh.size(mesh.sequence()));
  }
}

/// Sums the parts of all ranks that run the head. Ranks that do not split the data have copies.
Tensor global_loss(const Session& session, const Tensor& part) {
  const Mesh& mesh = session.mesh();
  if (mesh.world_size() == 1) return part;
  const at::NoGradGuard no_grad;
  const Tensor sums = at::zeros({2}, at::TensorOptions(at::kDouble).device(session.device()));
  if (part.defined()) {
    sums[0].copy_(part);
    sums[1].fill_(1);
  }
  mesh.group(mesh.all()).all_reduce(sums).wait();
  return sums[0] * static_cast<double>(mesh.size(mesh.data())) / sums[1];
}
}  // namespace optrush
