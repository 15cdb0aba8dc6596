#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/run/metrics_tail.h"
#include "launch/schedule/schedule.h"
#include "launch/schedule/time_estimate.h"
#include "process/terminal.h"
#include "results/run_result.h"

namespace optrush {
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
  /// Shows work before the runs, on a terminal only.
  void stage(const std::string& text);

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
  void draw(const std::string& line);
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
