#pragma once
#include "cli/model_tokens.h"
#include "cli/overrides.h"
#include "launch/controller.h"
#include "launch/fork_server.h"
#include "script/host.h"

namespace optrush {
/// Answers a script's questions about the machine by asking workers. Runs of two steps show whether a batch
/// fits. Their answers are stored in trials.jsonl in the folder of the reports, which is append-only: a
/// script that runs again builds the same experiment from them.
class AskingHost : public ScriptHost {
 public:
  /// `planned`: the host makes no runs.
  AskingHost(RunRequest, Overrides, bool planned = false);

  Json gpu() override;
  Json cpu() override;
  int64_t ranks(bool on_gpus) override;
  std::optional<int64_t> predicted_peak(const RunSpec&) override;
  std::optional<bool> holds(const MemoryTrial& trial) override { return remembered(with_tokens(trial)); }

  /// Whether every variant has a plan; if runs are made, whether all ended well and no rung broke the gate.
  bool all_ok() const { return all_ok_; }

 protected:
  const RunRequest& request() const { return request_; }
  /// Applies the overrides, resolves the tokens of the model, expands, and checks the restarts.
  Expanded prepared(const Experiment&);
  MemoryTrial with_tokens(MemoryTrial trial);
  /// The latest answer; none if there was no such trial. Each label has separate answers.
  std::optional<bool> remembered(const MemoryTrial&) const;
  /// Runs the trial. Throws an Error if it fails for another reason than memory.
  bool try_out(const MemoryTrial&);

  bool all_ok_ = true;

 private:
  Json gpus();
  /// The output of the worker's command `what`; null if it writes none.
  Json ask_worker(const std::string& what);
  std::string key_of(const MemoryTrial&) const;

  ForkServer workers_;
  RunRequest request_;
  Overrides overrides_;
  std::filesystem::path trials_;
  ModelTokens model_tokens_;
};
}  // namespace optrush
