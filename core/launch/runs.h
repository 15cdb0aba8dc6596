#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "launch/ledger/ledger.h"
#include "launch/progress.h"
#include "launch/run/run_starter.h"

namespace optrush {
/// Starts runs, and tells of their starts and ends: the ledger, the progress line, and the other processes of
/// a launcher's job.
class Runs {
 public:
  Runs(Ledger&, const RunRequest&, Interrupts&, Progress&);

  Ledger& ledger() { return ledger_; }
  RunStarter& starter() { return starter_; }
  Interrupts& interrupts() { return interrupts_; }
  Progress& progress() { return progress_; }
  const RunRequest& request() const { return request_; }

  /// Null after a signal. `how` is for the progress line.
  std::unique_ptr<LiveRun> start(const Job&, const std::string& how, const Environment& added);
  /// To be called a few times per second while runs are alive.
  void tick();
  void ended(const Job&, const RunResult&);
  /// It was ended without a valid result, by a signal or because others held the memory.
  void abandoned(const Job&);
  /// Tells the user what the ledger has noted.
  void tell_notes();

 private:
  Ledger& ledger_;
  const RunRequest& request_;
  Interrupts& interrupts_;
  Progress& progress_;
  RunStarter starter_;
};

/// The file that shows the progress of a run.
std::filesystem::path metrics_file(const std::filesystem::path& run_folder, const Job&);
/// Removes states and rank ends of an earlier start before a run begins.
void begin_anew(const std::filesystem::path& run_folder);
}  // namespace optrush
