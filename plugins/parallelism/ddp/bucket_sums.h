#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "optrush/mesh.h"

namespace optrush::ddp {
/// How gradients are put into buckets, and what goes over the wire.
struct BucketOptions {
  int64_t first_bytes = 0;  ///< of the first bucket that is sent: small, so that sending begins early
  int64_t bytes = 0;        ///< of the others
  std::optional<at::ScalarType> wire = {};  ///< none: the gradients' own type
};

/// The sums of a step's buckets over the ranks, in flight while the backward continues.
class BucketSums {
 public:
  /// Called with a gradient's number when its sum is there.
  using Summed = std::function<void(size_t gradient)>;
  BucketSums(Group& group, std::optional<at::ScalarType> wire, Summed summed)
      : group_(group), wire_(wire), summed_(std::move(summed)) {}

  /// Sums `bucket` in place, which holds these gradients. It must not be touched before wait().
  void start(const Tensor& bucket, std::vector<size_t> gradients);
  /// Waits for the buckets in the order of their start.
  void wait();
  /// What a bucket of `numel` elements of this type is on the wire.
  int64_t wire_bytes(int64_t numel, at::ScalarType) const;

 private:
  bool narrows(at::ScalarType) const;
  struct Sum {
    Tensor bucket, sent;
    std::vector<size_t> gradients;
    WorkHandle pending;
  };
  Group& group_;
  std::optional<at::ScalarType> wire_;
  Summed summed_;
  std::vector<Sum> under_way_;
};
}  // namespace optrush::ddp
