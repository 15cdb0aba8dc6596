#pragma once
#include "launch/controller.h"
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
}  // namespace optrush
