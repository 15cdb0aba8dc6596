#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/part_times.h"

namespace optrush {
/// Collects notes, warnings, the present phase, and compile and set-up times of a run.
class RunLog {
 public:
  void note(const std::string& text);
  /// A warning that gives a reason to doubt the result. The report shows it below its findings.
  void warn(const std::string& text);
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Called at each change of the phase: loading, building, warmup, measuring, compiling.
  using Progress = std::function<void(const std::string& phase)>;
  void show_progress(Progress progress) { progress_ = std::move(progress); }
  void enter_phase(const std::string& name);
  const std::string& phase() const { return phase_; }

  /// While the guard lives, time counts as compile time, and calls of operators do not count for the step.
  std::shared_ptr<void> compiling(const std::string& what);
  double compile_seconds() const { return compile_seconds_; }

  /// Seconds of each part of the set-up.
  PartTimes& setup_times() { return setup_times_; }

 private:
  std::vector<std::string> notes_, warnings_;
  Progress progress_ = [](const std::string&) {};
  std::string phase_;
  double compile_seconds_ = 0;
  PartTimes setup_times_;
};
}  // namespace optrush
