#include "train/loss_sums.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

namespace optrush {
double sum_over_data(const Session& session, double value) {
  const Mesh& mesh = session.mesh();
  if (session.ranks().alone) return value * static_cast<double>(mesh.size(mesh.data()));
  const Tensor sum = at::scalar_tensor(value, at::kDouble);
  mesh.group(mesh.data()).all_reduce(sum).wait();
  return sum.item<double>();
}

/// Every rank that runs the head has its part; ranks that split no data have copies of it.
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
