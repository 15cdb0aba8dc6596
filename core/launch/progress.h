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
#include "launch/schedule/time_left.h"
#include "process/terminal.h"
#include "results/run_result.h"

namespace optrush {
/// Shows the progress of an experiment: one line for each run that ends and, on a terminal, one that is
/// redrawn meanwhile. Where several runs are interleaved, that line is about the one whose turn it is, and
/// the lines of those that have ended come together, in order, once all of them have.
class Progress {
 public:
  explicit Progress(Terminal terminal) : terminal_(terminal) {}
  ~Progress() { tell_ended(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A line that stays on the screen: a note for the user.
  void note(const std::string& text, Colour = Colour::plain);
  /// The work before the runs; shown on a terminal only.
  void stage(const std::string& text);

  struct Position {
    size_t number = 0, total = 0;
    std::string purpose;  ///< "round 2/3"
    bool open = false;    ///< more than `total` may come
  };
  /// The job starts, and has the turn; `later` counts those that have not begun, for the estimate.
  void begin(const Job&, const Position&, const std::filesystem::path& metrics,
             std::map<Work, int64_t> later);
  /// A job that has begun goes on.
  void go_on(const Job&);
  /// How many have begun and not ended.
  size_t begun() const { return begun_.size(); }
  void tick();
  void end(const Job&, const RunResult&);
  /// The job did not end by itself.
  void abandon(const Job&);

 private:
  struct Begun {
    Job job;
    Position position;
    MetricsTail metrics;
    RunState state = {};
    double seconds = 0;  ///< of interleaved steps that are complete

    /// "[2/9] FlashAttention, round 1/3, 4 ranks: ", with the name cut where it is longer than
    /// `name_columns`.
    std::string title(int name_columns) const;
  };
  /// A run that has ended, before its line is written.
  struct Ended {
    size_t number = 0;
    RunSpec spec;
    std::string title, status;
    std::optional<double> tokens_per_second;
    std::string rest;  ///< its time, and why it ended badly
  };
  void tell_ended();
  /// The speed of a measured run over the base's in its round; none where that has not ended.
  std::optional<double> over_base(const Ended&) const;
  /// Null: it has not begun.
  Begun* find(const std::string& id);
  double elapsed(const Begun&) const;
  /// No run has the turn.
  void pause();
  void draw(const std::string& line);
  void clear();

  Terminal terminal_;
  TimeLeft time_left_;
  std::vector<Begun> begun_;
  std::vector<Ended> ended_;                 ///< whose lines are not written yet
  std::map<Work, int64_t> later_;            ///< when the last run began
  std::map<int64_t, double> base_of_round_;  ///< tokens/s
  std::string present_;                      ///< id of the job that has the turn; "": none
  std::chrono::steady_clock::time_point since_;
  bool drawn_ = false;
};
}  // namespace optrush
