#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "experiment/experiment.h"
#include "optrush/json.h"
#include "process/signals.h"
#include "results/context.h"

namespace optrush {
/// The machine and what was run on it (docs/internals/controller.md): what the worker's doctor measures,
/// and what the controller knows. `quick`: only as far as needed to recognize it. Where the doctor fails, the
/// rest stands alone with the reason under "doctor". None where a signal came first.
std::optional<Json> describe_machine(const Experiment&, const std::filesystem::path& worker, bool quick,
                                     Interrupts&);

/// The output of the worker's doctor for the machine of this spec.
Json ask_doctor(const RunSpec&, const std::filesystem::path& worker, bool quick, Interrupts&);

/// Why one report cannot have runs of both contexts: "CPU 'A' there, 'B' here"; empty if it can.
std::string difference_of_machines(const Context& there, const Context& here);
/// The warning of a report with runs of both builds; empty if they are of one build.
std::string difference_of_builds(const Context& there, const Context& here);
}  // namespace optrush
