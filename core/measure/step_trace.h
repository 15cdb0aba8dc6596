#pragma once
#include <ATen/record_function.h>

#include <filesystem>
#include <optional>

#include "measure/step_clock.h"

namespace optrush {
/// LibTorch's profiler over what runs from construction to save(): operators of this thread and of
/// autograd's, and what a GPU does for them.
class StepTrace {
 public:
  explicit StepTrace(at::Device);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// Ends it and writes a Chrome trace (JSON), which chrome://tracing and ui.perfetto.dev open.
  void save(const std::filesystem::path& file);

 private:
  bool running_ = true;
};

/// A clock whose buckets are ranges of the trace.
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
