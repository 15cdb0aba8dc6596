#pragma once
#include <ATen/record_function.h>

#include <filesystem>
#include <optional>

#include "measure/step_clock.h"

namespace optrush {
/// Profiles everything from construction to save() with LibTorch's profiler: operators of this thread and of
/// autograd's threads, and their work on a GPU.
class StepTrace {
 public:
  explicit StepTrace(at::Device);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// Stops and writes a Chrome trace (JSON) for chrome://tracing or ui.perfetto.dev.
  void save(const std::filesystem::path& file);

 private:
  bool running_ = true;
};

/// A clock that also marks its buckets as ranges in the trace.
class TracedClock final : public StepClock {
 public:
  explicit TracedClock(StepClock& clock) : clock_(clock) {}
  void enter(Bucket) override;
  void end_step() override;
  std::optional<Bucket> present() const override { return clock_.present(); }
  std::optional<StepTime> take(bool wait) override { return clock_.take(wait); }

 private:
  StepClock& clock_;
  std::optional<at::RecordFunction> range_;
};
}  // namespace optrush
