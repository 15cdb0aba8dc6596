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

  /// Marks the phase as a range in the trace; none: the step has ended.
  void enter(std::optional<Bucket>);
  /// Stops and writes a Chrome trace (JSON) for chrome://tracing or ui.perfetto.dev.
  void save(const std::filesystem::path& file);

 private:
  bool running_ = true;
  std::optional<at::RecordFunction> range_;
};
}  // namespace optrush
