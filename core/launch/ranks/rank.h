#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "launch/run/metrics_tail.h"
#include "launch/schedule/schedule.h"
#include "process/process.h"
#include "results/run_result.h"

namespace optrush {
/// A rank that this process starts.
struct RankSetup {
  int64_t rank = 0, local_rank = 0, local_size = 1;
  int64_t cores = 1;                      ///< that its threads may use
  std::string store = {};                 ///< HOST:PORT of rank 0's store
  std::filesystem::path spec = {};        ///< the run's spec.json
  std::filesystem::path folder = {};      ///< of this rank's files
  std::filesystem::path state = {};       ///< folder for saved states, one for all ranks
  std::optional<int64_t> from_step = {};  ///< Job::from_step
};

/// The end of a rank.
struct RankEnd {
  ProcessEnd end;
  std::optional<RunResult> result = {};  ///< the result of its worker; none: missing or invalid
  std::string problem;                   ///< why there is no result: "wrote no result"
  RunState state;                        ///< its progress
  std::string log;                       ///< the last lines of its log
  /// Why its end is not known, so that the other fields have only its last known state; "": it is known.
  std::string lost;
  std::string name, time = {};  ///< RunningRank::name(), and when the end was noticed, from RankWatch

  enum class Verdict : uint8_t {
    ok,
    own,  ///< failed on its own, which explains the end of a run
    /// Ended or lost by an outside cause, which explains the end of a run unless a signal to the whole job
    /// does.
    outside,
    peer,    ///< ended because another rank ended
    absence  ///< another rank did not reach a collective in time
  };
  Verdict verdict() const;
};

/// The last known progress of a rank.
struct Seen {
  std::string phase;
  int64_t steps = 0;
  std::string log;  ///< the end of its log, at most 64 KiB
  bool operator==(const Seen&) const = default;
};

/// A running rank, under this process or another.
class RunningRank {
 public:
  explicit RunningRank(std::string name) : name_(std::move(name)) {}
  virtual ~RunningRank() = default;
  /// rank_name().
  const std::string& name() const { return name_; }
  /// Returns its end, once.
  virtual std::optional<RankEnd> poll() = 0;
  /// Sends SIGTERM to its process group; kill() sends SIGKILL.
  virtual void terminate() = 0;
  virtual void kill() = 0;

 private:
  std::string name_;
};

/// The command of a rank's worker. Creates its folder. `added`: additional environment variables.
Command rank_command(const std::filesystem::path& worker, const RankSetup&, const RunSpec&,
                     const Environment& added);

/// A rank whose worker this process has started.
class LocalRank : public RunningRank {
 public:
  LocalRank(int64_t rank, std::filesystem::path folder, std::unique_ptr<Process> worker);

  std::optional<RankEnd> poll() override;
  void terminate() override { process_->signal_group(SIGTERM); }
  void kill() override { process_->signal_group(SIGKILL); }
  Seen seen();

 private:
  std::filesystem::path folder_;
  MetricsTail metrics_;
  std::unique_ptr<Process> process_;
};

// Folders in a run's folder: saved states, the state with the lowest validation loss, and a rank's files.
std::filesystem::path state_folder(const std::filesystem::path& run_folder);
std::filesystem::path best_state_folder(const std::filesystem::path& run_folder);
std::filesystem::path rank_folder(const std::filesystem::path& run_folder, int64_t rank);
/// For example "rank 2 (host node7)".
std::string rank_name(int64_t rank, const std::string& host);
}  // namespace optrush
