#pragma once
#include "launch/controller.h"
#include "launch/model_tokens.h"
#include "script/host.h"

namespace optrush {
/// Real runs of two steps that show whether a batch fits, and their answers: a script that is run again
/// builds the same experiment from them. trials.jsonl in the folder of the reports, only ever appended to.
class MemoryTrials {
 public:
  /// `label` of the command line: reports of different labels have answers of their own.
  MemoryTrials(RunRequest, std::string label);

  /// The latest answer; none where there was no such trial.
  std::optional<bool> remembered(const MemoryTrial&) const;
  /// Runs it, on a machine with so many GPUs. An Error where it ended neither well nor for want of memory.
  bool run(const MemoryTrial&, int64_t gpus);

 private:
  std::string key_of(const MemoryTrial&) const;

  RunRequest request_;
  std::string label_;
  std::filesystem::path file_;
};

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
  /// The output of the worker's command `what`; null if it writes nothing.
  Json ask_worker(const std::string& what) const;

  std::filesystem::path worker_;
  std::optional<PlannedGpu> as_gpu_;  ///< that is planned for and need not be there
  MemoryTrials trials_;
  ModelTokens model_tokens_;
};
}  // namespace optrush
