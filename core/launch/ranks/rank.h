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
/// Where a rank is in a run: among all of them, and on its machine.
struct RankPlace {
  int64_t rank = 0, local_rank = 0, local_size = 1;
  int64_t cores = 1;  ///< that its threads may use
};

/// Paths of a rank that is started here.
struct RankFiles {
  std::filesystem::path spec;    ///< the run's spec.json
  std::filesystem::path folder;  ///< for what this rank writes
  std::filesystem::path state;   ///< for the state that the spec wants saved, one folder for all ranks
  std::optional<int64_t> from_step = {};  ///< that the run goes on with, from that state (Job)
};

/// How one rank's part of a run ended.
struct RankEnd {
  ProcessEnd end;
  std::optional<RunResult> result = {};  ///< what its worker wrote; none: nothing that can be used
  std::string problem;                   ///< why there is no result: "wrote no result"
  RunState state;                        ///< how far it came
  std::string log;                       ///< the last lines of its log
  std::string lost;  ///< why its end is not known, and of the rest only what was last heard; "": it is

  enum class Verdict : uint8_t {
    ok,
    own,      ///< failed by itself: this explains a run
    outside,  ///< ended or lost by something outside: this does where no signal to the whole job explains it
    peer,     ///< ended because another rank went away
    absence   ///< another rank did not arrive at a collective in time
  };
  Verdict verdict() const;
};

/// How far a rank is, and what it has said.
struct Seen {
  std::string phase;
  int64_t steps = 0;
  std::string log;  ///< its last kMostLogBytes
  bool operator==(const Seen&) const = default;
};
inline constexpr int64_t kMostLogBytes = 1 << 16;

/// One rank of a run that is under way, here or elsewhere.
class RunningRank {
 public:
  virtual ~RunningRank() = default;
  /// Its end, once.
  virtual std::optional<RankEnd> poll() = 0;
  /// SIGTERM to all that it has started.
  virtual void terminate() = 0;
  /// SIGKILL.
  virtual void kill() = 0;
  /// "rank 2 (host node7)"
  virtual std::string name() const = 0;
};

/// A rank whose worker is a process of this one.
class LocalRank : public RunningRank {
 public:
  /// `store` is HOST:PORT, where rank 0 serves; `added` to its environment.
  LocalRank(const std::filesystem::path& worker, const RankFiles&, const std::string& store, const RankPlace&,
            const RunSpec&, const Environment& added);

  std::optional<RankEnd> poll() override;
  void terminate() override { process_.signal_group(SIGTERM); }
  void kill() override { process_.signal_group(SIGKILL); }
  std::string name() const override;
  Seen seen();

 private:
  int64_t rank_;
  std::filesystem::path folder_;
  MetricsTail metrics_;
  Process process_;
};

/// Where the ranks of a run save its state, in the run's folder.
std::filesystem::path state_folder(const std::filesystem::path& run_folder);
/// Where they keep the state of the lowest validation loss.
std::filesystem::path best_state_folder(const std::filesystem::path& run_folder);
/// The folder of a rank in its run's.
std::filesystem::path rank_folder(const std::filesystem::path& run_folder, int64_t rank);
/// "rank 2 (host node7)".
std::string rank_name(int64_t rank, const std::string& host);
}  // namespace optrush
