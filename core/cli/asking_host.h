#pragma once
#include "launch/controller.h"
#include "launch/fork_server.h"
#include "launch/model_tokens.h"
#include "script/host.h"

namespace optrush {
/// Runs of two steps that show whether a batch fits, and their stored answers: a script that runs again
/// builds the same experiment from them. Stored in trials.jsonl in the folder of the reports, which is
/// append-only.
class MemoryTrials {
 public:
  /// `label`: of the command line; each label has separate answers.
  MemoryTrials(RunRequest, std::string label);

  /// The latest answer; none if there was no such trial.
  std::optional<bool> remembered(const MemoryTrial&) const;
  /// Runs the trial on a machine with `gpus` GPUs. Throws an Error if it fails for another reason than
  /// memory.
  bool run(const MemoryTrial&, int64_t gpus);

 private:
  std::string key_of(const MemoryTrial&) const;

  RunRequest request_;
  std::string label_;
  std::filesystem::path file_;
};

/// Answers a script's questions about the machine by asking workers.
class AskingHost : public ScriptHost {
 public:
  /// `label`: of the command line; "": not given.
  explicit AskingHost(const RunRequest& request, const std::string& label = "");

  Json gpu() override;
  Json cpu() override;
  int64_t ranks(bool on_gpus) override;
  std::optional<int64_t> predicted_peak(const RunSpec&) override;
  /// The stored answer.
  std::optional<bool> holds(const MemoryTrial& trial) override {
    return trials_.remembered(with_tokens(trial));
  }

 protected:
  ModelTokens& model_tokens() { return model_tokens_; }
  MemoryTrial with_tokens(MemoryTrial trial);
  MemoryTrials& trials() { return trials_; }
  ForkServer& workers() { return workers_; }
  Json gpus();

 private:
  /// The output of the worker's command `what`; null if it writes none.
  Json ask_worker(const std::string& what);

  ForkServer workers_;
  std::optional<PlannedGpu> as_gpu_;  ///< the GPU of --as-gpu
  MemoryTrials trials_;
  ModelTokens model_tokens_;
};
}  // namespace optrush
