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
  /// The oldest ended step that was not taken yet. Without `wait` only if its time is already known.
  virtual std::optional<StepTime> take(bool wait) = 0;

  static std::unique_ptr<StepClock> make(at::Device);
};
}  // namespace optrush
