#pragma once
#include "cli/memory_trials.h"
#include "launch/conductor.h"
#include "script/host.h"

namespace optrush {
/// Answers what a script asks about the machine, through workers.
class AskingHost : public ScriptHost {
 public:
  /// `label`: of the command line; "": not given.
  explicit AskingHost(const RunRequest& request, const std::string& label = "")
      : worker_(request.worker), as_gpu_(request.as_gpu), trials_(request, label) {}

  Json gpu() override;
  int64_t ranks(bool on_gpus) override;
  std::optional<int64_t> predicted_peak(const RunSpec&) override;
  /// As it was answered before.
  std::optional<bool> holds(const MemoryTrial& trial) override { return trials_.remembered(trial); }

 protected:
  MemoryTrials& trials() { return trials_; }
  Json gpus() const;

 private:
  std::filesystem::path worker_;
  std::optional<PlannedGpu> as_gpu_;  ///< that is planned for and need not be there
  MemoryTrials trials_;
};
}  // namespace optrush
