#include "worker/metrics_log.h"

#include <chrono>
#include <cmath>

#include "base/files.h"

namespace optrush {
namespace {
/// Seconds since 1970, rounded to milliseconds.
double now() {
  const std::chrono::duration<double> since = std::chrono::system_clock::now().time_since_epoch();
  return std::round(since.count() * 1e3) / 1e3;
}
}  // namespace

MetricsLog::MetricsLog(std::filesystem::path file, int64_t rank, int64_t ranks, size_t limit_bytes)
    : file_(std::move(file)), rank_(rank), ranks_(ranks), limit_(limit_bytes) {
  std::filesystem::remove(file_);
}

void MetricsLog::append(const Json& event) {
  Json line = event;
  // Steps of an earlier process are repeated without a time, because it is not known.
  if (!line.value("earlier", false)) line["time"] = now();
  if (ranks_ > 1) line["rank"] = rank_;
  if (line.value("event", "") == "phase") line["steps"] = steps_;
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (rank_ > 0 && bytes_ + text.size() > limit_) begin_again();
  append_line(file_, text);
  bytes_ += text.size() + 1;
  const std::string what = event.value("event", "");
  if (what == "phase") phase_ = event.value("name", "");
  if (what == "step") ++steps_;
}

/// Replaces the file by a rename, so that a reader notices a new file.
void MetricsLog::begin_again() {
  const std::string text =
      Json{{"event", "progress"}, {"steps", steps_}, {"phase", phase_}, {"time", now()}, {"rank", rank_}}
          .dump();
  write_file(file_, text + "\n");
  bytes_ = text.size() + 1;
}
}  // namespace optrush
