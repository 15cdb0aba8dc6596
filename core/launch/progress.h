#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/run/metrics_tail.h"
#include "launch/schedule/schedule.h"
#include "process/terminal.h"
#include "results/run_result.h"

namespace optrush {
/// Estimates the time of jobs from finished ones: of the same variant, otherwise the mean of the same
/// purpose.
class TimeLeft {
 public:
  void done(const Work&, double seconds);
  /// None before a comparable job has finished.
  std::optional<double> expected(const Work&) const;
  /// A running job with `elapsed` seconds for `steps` steps; `before`: steps of an earlier start; `length`:
  /// steps of the whole run, 0: as its spec states.
  struct UnderWay {
    RunSpec spec;
    double elapsed = 0;
    int64_t steps = 0, before = 0, length = 0;
  };
  /// The remaining time of running jobs and of `later` (counts of runs); none if one of them is unknown.
  std::optional<double> remaining(const std::vector<UnderWay>&, const std::map<Work, int64_t>& later) const;

 private:
  std::optional<double> mean_of(Purpose) const;

  using Kind = std::pair<Purpose, int64_t>;  ///< (purpose, variant)
  struct Took {
    double seconds = 0;
    int64_t steps = 0;
  };
  std::map<Kind, Took> took_;
};

/// Shows the progress of an experiment: one line per finished run and, on a terminal, a line that is redrawn
/// meanwhile. For interleaved runs, that line is about the run with the turn, and the lines of finished runs
/// are written together in order at the end.
class Progress {
 public:
  explicit Progress(Terminal terminal) : terminal_(terminal) {}
  ~Progress() { print_ended(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void note(const std::string& text, Colour = Colour::plain);
  /// Draws the line anew, on a terminal only.
  void stage(const std::string& line);

  struct Position {
    size_t number = 0, total = 0;
    std::string purpose;  ///< "round 2/3"
    bool open = false;    ///< there may be more than `total`
  };
  /// The job starts and has the turn. `later` counts the jobs that have not started, for the estimate.
  void begin(const Job&, const Position&, const std::filesystem::path& metrics,
             std::map<Work, int64_t> later);
  /// A started job gets the turn again.
  void resume(const Job&);
  void tick();
  void end(const Job&, const RunResult&);
  /// The job was ended from outside.
  void abandon(const Job&);

 private:
  struct Begun {
    Job job;
    Position position;
    MetricsTail metrics;
    RunState state = {};
    double seconds = 0;  ///< seconds of completed interleaved turns

    /// "[2/9] FlashAttention, round 1/3, 4 ranks: ", with a name longer than `name_columns` cut.
    std::string title(int name_columns) const;
  };
  /// A finished run whose line is not written yet.
  struct Ended {
    size_t number = 0;
    RunSpec spec;
    std::string title, status;
    std::optional<double> tokens_per_second;
    std::string rest;  ///< its time, and the reason of a failure
  };
  void print_ended();
  Begun* find(const std::string& id);
  double elapsed(const Begun&) const;
  /// Takes the turn away from the present run.
  void pause();
  void clear();

  Terminal terminal_;
  TimeLeft time_left_;
  std::vector<Begun> begun_;
  std::vector<Ended> ended_;
  std::map<Work, int64_t> later_;            ///< at the start of the last run
  std::map<int64_t, double> base_of_round_;  ///< tokens/s of the base, by round
  std::string present_;                      ///< id of the job with the turn; "": none
  std::chrono::steady_clock::time_point since_;
  bool drawn_ = false;
};
}  // namespace optrush
