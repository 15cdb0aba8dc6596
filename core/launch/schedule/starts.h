#pragma once
#include <filesystem>
#include <optional>

#include "experiment/external.h"
#include "optrush/spec.h"
#include "process/signals.h"

namespace optrush {
/// Exports the start of runs for other programs: initial values and tokens (`optrush-worker export`). Runs
/// with equal starts share a folder, so a model of gigabytes is written once. The destructor removes the
/// folders.
class Starts {
 public:
  Starts(std::filesystem::path worker, const std::filesystem::path& folder);
  ~Starts();
  Starts(const Starts&) = delete;
  Starts& operator=(const Starts&) = delete;

  /// Whether the command uses {start}.
  static bool wanted(const External&);
  /// The folder of this spec's start, exported at the first request. An Error states why there is none. None
  /// after a signal.
  std::optional<std::filesystem::path> of(const RunSpec&, Interrupts&) const;

 private:
  std::filesystem::path worker_, folder_;
};
}  // namespace optrush
