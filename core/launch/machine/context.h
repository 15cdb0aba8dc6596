#pragma once
#include <optional>
#include <string>

#include "experiment/experiment.h"
#include "launch/fork_server.h"
#include "optrush/json.h"
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
}  // namespace optrush
