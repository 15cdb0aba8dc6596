#pragma once
#include <filesystem>
#include <optional>

#include "experiment/external.h"
#include "optrush/spec.h"
#include "process/signals.h"

namespace optrush {
/// The start for other programs: a run's initial values and tokens, as `optrush-worker export` writes them.
/// Runs that start alike share one folder, so a model of gigabytes is written once for all of them; the
/// folders are gone with the object.
class Starts {
 public:
  Starts(std::filesystem::path worker, const std::filesystem::path& folder);
  ~Starts();
  Starts(const Starts&) = delete;
  Starts& operator=(const Starts&) = delete;

  /// Whether the command asks for one: {start}.
  static bool wanted(const External&);
  /// The folder of this spec's start, exported now where it is the first. An Error says why there is none;
  /// nothing where a signal came first.
  std::optional<std::filesystem::path> of(const RunSpec&, Interrupts&) const;

 private:
  std::filesystem::path worker_, folder_;
};
}  // namespace optrush
