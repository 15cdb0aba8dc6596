#include "launch/machine/noise_log.h"

#include "base/files.h"
#include "launch/machine/machine_counters.h"
#include "machine/cores.h"
#include "results/noise_line.h"

namespace optrush {
NoiseLog::NoiseLog(std::filesystem::path file, double seconds) : file_(std::move(file)), seconds_(seconds) {
  close_torn_line(file_);
}

void NoiseLog::look(int64_t rounds) {
  const Json before = read_machine_counters();
  if (!probe_) probe_.emplace(usable_cores());
  const auto pieces = probe_->measure(seconds_);
  const Json line = to_json(noise_line(rounds, pieces, before, read_machine_counters()));
  append_line(file_, line.dump());
}
}  // namespace optrush
