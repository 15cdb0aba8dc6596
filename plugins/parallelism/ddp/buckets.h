#pragma once
#include <memory>
#include <span>
#include <vector>

#include "bucket_sums.h"

namespace optrush::ddp {
/// Shape and type of a gradient in a bucket.
struct GradientForm {
  std::vector<int64_t> shape;
  at::TensorOptions options;
  int64_t numel() const;
  int64_t bytes() const { return numel() * static_cast<int64_t>(options.dtype().itemsize()); }
};

/// Flat tensors that hold the gradients for the whole run and are summed over the ranks. Gradients have
/// numbers, in order of the forward. Calls of a step: begin, ready for some, complete with the others.
class Buckets {
 public:
  virtual ~Buckets() = default;
  /// The memory of a gradient; the same tensor until settle().
  virtual Tensor view(size_t gradient) const = 0;
  /// Before the backward in which gradients become ready.
  virtual void begin() = 0;
  /// In a backward: this rank's gradient is final. A bucket is sent when all of its gradients are final and
  /// the buckets before it are sent. The sums are complete when the backward has ended.
  virtual void ready(size_t gradient) = 0;
  /// After the backward: the gradients that were not ready in it are final. When this returns, every sum is
  /// complete.
  virtual void complete(std::span<const size_t> others) = 0;
  /// After a step, when no gradient is needed: orders the buckets by the order in which gradients became
  /// ready.
  virtual void settle() = 0;
};

/// c10d's Reducer over a group of several ranks.
std::unique_ptr<Buckets> make_reducer_buckets(const std::vector<GradientForm>&, Group&, const BucketOptions&,
                                              BucketSums::Summed);
/// Buckets of the same sizes without communication, for one rank and for a forecast.
std::unique_ptr<Buckets> make_planned_buckets(const std::vector<GradientForm>&, Group&, const BucketOptions&,
                                              BucketSums::Summed);

/// Tensors of these shapes and types that hold one number each.
Tensors stand_ins(const std::vector<GradientForm>&);
/// The gradients of each bucket, if they become ready in reverse order. The bucket that is sent first is
/// first.
std::vector<std::vector<size_t>> assign(const Tensors& gradients, const BucketOptions&);
}  // namespace optrush::ddp
