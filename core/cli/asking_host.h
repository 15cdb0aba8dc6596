#pragma once
#include "cli/memory_trials.h"
#include "launch/controller.h"
#include "launch/model_tokens.h"
#include "script/host.h"

namespace optrush {
/// Answers what a script asks about the machine, through workers.
class AskingHost : public ScriptHost {
 public:
  /// `label`: of the command line; "": not given.
  explicit AskingHost(const RunRequest& request, const std::string& label = "");

  Json gpu() override;
  Json cpu() override;
  int64_t ranks(bool on_gpus) override;
  std::optional<int64_t> predicted_peak(const RunSpec&) override;
  /// As it was answered before.
  std::optional<bool> holds(const MemoryTrial& trial) override {
    return trials_.remembered(with_tokens(trial));
  }

 protected:
  ModelTokens& model_tokens() { return model_tokens_; }
  MemoryTrial with_tokens(MemoryTrial trial);
  MemoryTrials& trials() { return trials_; }
  Json gpus() const;

 private:
  /// What the worker's command `what` writes; null where it writes nothing.
  Json ask_worker(const std::string& what) const;

  std::filesystem::path worker_;
  std::optional<PlannedGpu> as_gpu_;  ///< that is planned for and need not be there
  MemoryTrials trials_;
  ModelTokens model_tokens_;
};
}  // namespace optrush
