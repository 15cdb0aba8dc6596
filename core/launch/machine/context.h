#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "experiment/experiment.h"
#include "launch/fork_server.h"
#include "optrush/json.h"
#include "optrush/spec.h"
#include "process/signals.h"
#include "results/context.h"

namespace optrush {
/// Describes the machine and its software (docs/internals/controller.md): the measurements of the worker's
/// doctor, and what the controller knows. `quick`: only as far as needed to recognize the machine. If the
/// doctor fails, the field "doctor" has the reason. None after a signal.
std::optional<Json> describe_machine(const Experiment&, ForkServer& workers, bool quick, Interrupts&);

/// The output of the worker's doctor for the machine of this spec.
Json ask_doctor(RunSpec, ForkServer& workers, bool quick, Interrupts&);

/// The reason why a report can't have runs of both machines: "CPU 'A' there, 'B' here"; empty if it can.
std::string difference_of_machines(const Context& there, const Context& here);
/// The warning for a report with runs of both builds; empty if the builds are equal.
std::string difference_of_builds(const Context& there, const Context& here);

/// Measures the machine's peaks of matrix products again between rounds, because it may have been busy at the
/// start. context.json has the best value of each dtype, peaks.jsonl every measurement.
class PeakLog {
 public:
  /// `folder`: of the report.
  PeakLog(std::filesystem::path folder, ForkServer& workers, const RunSpec& base, Interrupts&);

  /// Measures after `rounds` rounds, while no run is alive, if the measurement takes a small share of the
  /// time since the last one. Returns the context with the best peaks; none: it was not measured.
  std::optional<Json> look(int64_t rounds, const Json& context);

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path folder_;
  ForkServer& workers_;
  const RunSpec& base_;
  Interrupts& interrupts_;
  Clock::time_point last_ = Clock::now();
  double measuring_s_ = 10;  ///< duration of a measurement; before the first, as on two cores
};

/// `context` with the maximum of its peaks and the other measured peaks.
Json with_best_peaks(Json context, const Json& other);
}  // namespace optrush
