#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "optrush/json.h"

namespace optrush {
/// metrics.jsonl of a rank: one JSON object per line, with the time and, for several ranks, the rank. The
/// file of rank 0 has the whole run; those of others start again beyond a size limit, with their progress.
class MetricsLog {
 public:
  /// Starts an empty file. `ranks`: number of ranks of the run.
  MetricsLog(std::filesystem::path file, int64_t rank, int64_t ranks, size_t limit_bytes = kLimit);

  void append(const Json& event);

  static constexpr size_t kLimit = 4U << 20;

 private:
  void begin_again();

  std::filesystem::path file_;
  int64_t rank_, ranks_;
  size_t limit_;
  size_t bytes_ = 0;
  int64_t steps_ = 0;  ///< steps of the run so far
  std::string phase_;
};
}  // namespace optrush
