#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/metrics_tail.h"
#include "launch/schedule.h"
#include "launch/terminal.h"
#include "launch/time_left.h"
#include "optrush/json.h"

namespace optrush {
/// Tells how an experiment gets on: one line for each run that ends and, on a terminal, one that is redrawn
/// meanwhile.
class Progress {
 public:
  explicit Progress(Terminal terminal) : terminal_(terminal) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A line that stays: something that the user should know.
  void note(const std::string& text, Colour = Colour::plain);
  /// What is done before the runs; shown on a terminal only.
  void stage(const std::string& text);

  struct Position {
    size_t number = 0, total = 0;
    std::string purpose;  ///< "round 2/3"
    bool open = false;    ///< more than `total` may come
  };
  /// The job starts; `later` is what follows it, for the estimate.
  void begin(const Job&, const Position&, const std::filesystem::path& metrics, std::vector<Job> later);
  void tick();
  void end(const Json& result);
  /// The job did not end by itself.
  void abandon();

 private:
  struct Current {
    Job job;
    Position position;
    MetricsTail metrics;
    std::vector<Job> later;
    std::chrono::steady_clock::time_point start;

    double elapsed() const;
    /// "[2/9] FlashAttention, round 1/3, 4 ranks: ", with the name cut where it is longer than
    /// `name_columns`.
    std::string title(int name_columns) const;
  };
  void draw(const std::string& line);
  void clear();

  Terminal terminal_;
  TimeLeft time_left_;
  std::optional<Current> current_;
  bool drawn_ = false;
};
}  // namespace optrush
