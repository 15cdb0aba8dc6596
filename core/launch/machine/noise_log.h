#pragma once
#include <filesystem>
#include <optional>

#include "launch/machine/noise_probe.h"

namespace optrush {
/// How steady the machine is, told by a probe and by Linux's counters: a line each time in noise.jsonl.
class NoiseLog {
 public:
  /// `seconds` of each probe; 0: none.
  NoiseLog(std::filesystem::path file, double seconds);

  bool off() const { return seconds_ <= 0; }
  /// Whether it has probed yet.
  bool begun() const { return probe_.has_value(); }
  /// After so many rounds, while no run is alive.
  void look(int64_t rounds);

 private:
  std::filesystem::path file_;
  double seconds_;
  std::optional<NoiseProbe> probe_;
};
}  // namespace optrush
