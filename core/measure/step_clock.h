#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

namespace optrush {
/// Where the time of a step goes. `off`: the host's own bookkeeping (gradient norm), which is not part of the
/// step. `whole`: a part of the step whose phases can't be told apart.
enum class Bucket : uint8_t { data, forward, backward, communication, optimizer, off, whole };
inline constexpr size_t kBuckets = 7;

struct StepTime {
  std::array<double, kBuckets> seconds{};
  std::array<bool, kBuckets> seen{};
  /// Of the whole step, without `off`.
  double total() const;
};

/// Times the steps of a run: intervals between marks. The steady clock on a CPU; events on a GPU, read when
/// they are complete, so that timing adds no synchronization.
class StepClock {
 public:
  virtual ~StepClock() = default;
  /// Ends the present interval and starts one that belongs to `bucket`. The first call of a step starts the
  /// step.
  virtual void enter(Bucket) = 0;
  virtual void end_step() = 0;
  /// Phase of the present interval; none outside of a step.
  virtual std::optional<Bucket> present() const = 0;
  /// The oldest ended step that was not taken yet. Without `wait` only if its time is already known.
  virtual std::optional<StepTime> take(bool wait) = 0;

  static std::unique_ptr<StepClock> make(at::Device);
};

/// While it lives, the step's time goes to another bucket: a wait for other ranks in the middle of a
/// backward. Nothing happens outside of a step, and where phases can't be told apart or do not count.
class BucketScope {
 public:
  BucketScope(StepClock& clock, Bucket bucket) : clock_(clock), outer_(clock.present()) {
    if (outer_ == Bucket::off || outer_ == Bucket::whole) outer_.reset();
    if (outer_) clock_.enter(bucket);
  }
  ~BucketScope() {
    if (outer_) clock_.enter(*outer_);
  }
  BucketScope(const BucketScope&) = delete;
  BucketScope& operator=(const BucketScope&) = delete;

 private:
  StepClock& clock_;
  std::optional<Bucket> outer_;
};
}  // namespace optrush
