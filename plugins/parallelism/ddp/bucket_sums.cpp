#include "bucket_sums.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <utility>

namespace optrush::ddp {
bool BucketSums::narrows(at::ScalarType type) const {
  return wire_ && group_.size() > 1 && at::elementSize(*wire_) < at::elementSize(type);
}

int64_t BucketSums::wire_bytes(int64_t numel, at::ScalarType type) const {
  return numel * static_cast<int64_t>(at::elementSize(narrows(type) ? *wire_ : type));
}

void BucketSums::start(const Tensor& bucket, std::vector<size_t> gradients) {
  const at::NoGradGuard no_grad;
  const Tensor sent = narrows(bucket.scalar_type()) ? bucket.to(*wire_) : bucket;
  under_way_.push_back({bucket, sent, std::move(gradients), group_.all_reduce(sent)});
}

void BucketSums::wait() {
  const at::NoGradGuard no_grad;
  for (Sum& sum : std::exchange(under_way_, {})) {
    sum.pending.wait();
    if (!sum.sent.is_same(sum.bucket)) sum.bucket.copy_(sum.sent);
    sum.sent.reset();
    for (const size_t gradient : sum.gradients) summed_(gradient);
  }
}
}  // namespace optrush::ddp
