#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/part_times.h"

namespace optrush {
/// The messages of a run during its course: remarks for the report, its phase, how long it compiled.
class RunLog {
 public:
  void note(const std::string& text);
  /// A remark that puts the result in doubt: the report shows it below its findings.
  void warn(const std::string& text);
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Called as the run goes from one phase to the next: loading, building, warmup, measuring, compiling.
  using Progress = std::function<void(const std::string& phase)>;
  void show_progress(Progress progress) { progress_ = std::move(progress); }
  void enter_phase(const std::string& name);
  const std::string& phase() const { return phase_; }

  /// While the guard lives, time counts as compiling and what is called counts for no step.
  std::shared_ptr<void> compiling(const std::string& what);
  double compile_seconds() const { return compile_seconds_; }

  /// What the set-up of the run takes, by part.
  PartTimes& setup_times() { return setup_times_; }

 private:
  std::vector<std::string> notes_, warnings_;
  Progress progress_ = [](const std::string&) {};
  std::string phase_;
  double compile_seconds_ = 0;
  PartTimes setup_times_;
};
}  // namespace optrush
