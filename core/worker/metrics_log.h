#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "optrush/json.h"

namespace optrush {
/// metrics.jsonl of a rank: a JSON object a line, with the time and, of several ranks, the rank. Rank 0's is
/// the course of the whole run. The others' tell how far each is, and begin again with one line of that where
/// they have grown beyond a limit.
class MetricsLog {
 public:
  /// Begins empty. `ranks`: of the run.
  MetricsLog(std::filesystem::path file, int64_t rank, int64_t ranks, size_t limit_bytes = kLimit);

  void append(const Json& event);

  static constexpr size_t kLimit = 4U << 20;

 private:
  void begin_again();

  std::filesystem::path file_;
  int64_t rank_, ranks_;
  size_t limit_;
  size_t bytes_ = 0;
  int64_t steps_ = 0;  ///< of the run so far
  std::string phase_;
};
}  // namespace optrush
