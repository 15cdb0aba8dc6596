#pragma once
#include <filesystem>
#include <optional>

#include "launch/machine/noise_probe.h"

namespace optrush {
/// Records how steady the machine is, by a probe and Linux's counters: one line per probe in noise.jsonl.
class NoiseLog {
 public:
  /// `seconds`: duration of a probe; 0: no probes.
  NoiseLog(std::filesystem::path file, double seconds);

  bool off() const { return seconds_ <= 0; }
  /// Whether it has probed at least once.
  bool begun() const { return probe_.has_value(); }
  /// Probes after `rounds` rounds, while no run is alive.
  void look(int64_t rounds);

 private:
  std::filesystem::path file_;
  double seconds_;
  std::optional<NoiseProbe> probe_;
};
}  // namespace optrush
