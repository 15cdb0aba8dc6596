#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace optrush {
/// The phase to which the time of a step belongs. `off`: the host's bookkeeping (gradient norm), which is not
/// part of the step. `whole`: a part of the step whose phases can't be measured separately.
enum class Bucket : uint8_t { data, forward, backward, communication, optimizer, off, whole };
inline constexpr size_t kBuckets = 7;
/// The name in results: "forward". The name of `off` is "bookkeeping".
const char* name_of(Bucket);

struct StepTime {
  std::array<double, kBuckets> seconds{};
  std::array<bool, kBuckets> seen{};
  /// Seconds of the whole step, without `off`.
  double total() const;
};

/// Measures the phases of steps as intervals between marks. Marks are readings of the steady clock on a CPU,
/// and events on a GPU that are read when complete, so that timing adds no synchronization.
class StepClock {
 public:
  virtual ~StepClock() = default;
  /// Ends the present interval and starts one of `bucket`. The first call starts the step.
  virtual void enter(Bucket) = 0;
  virtual void end_step() = 0;
  /// Bucket of the present interval; none outside of a step.
  virtual std::optional<Bucket> present() const = 0;
  /// Takes the oldest finished step. Without `wait`, only if its times are already known.
  virtual std::optional<StepTime> take(bool wait) = 0;

  static std::unique_ptr<StepClock> make(at::Device);
};

/// Passes each phase to `watch` when it begins, and no phase when the step ends.
class WatchedClock final : public StepClock {
 public:
  using Watch = std::function<void(std::optional<Bucket>)>;
  WatchedClock(StepClock& clock, Watch watch) : clock_(clock), watch_(std::move(watch)) {}
  void enter(Bucket bucket) override {
    watch_(bucket);
    clock_.enter(bucket);
  }
  void end_step() override {
    watch_(std::nullopt);
    clock_.end_step();
  }
  std::optional<Bucket> present() const override { return clock_.present(); }
  std::optional<StepTime> take(bool wait) override { return clock_.take(wait); }

 private:
  StepClock& clock_;
  Watch watch_;
};

/// While it lives, time counts for another bucket. No effect outside of a step and in `off` and `whole`.
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
