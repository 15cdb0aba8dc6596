// Quantities: phases of a step, and communication.
#include "report/analysis/quantity_parts.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;
}  // namespace

std::vector<Quantity> phase_quantities() {
  return {
      {.csv = "data_seconds",
       .grid = "data_time",
       .unit = Unit::seconds,
       .value = [](A, R r) { return value_named(r.phases, "data"); },
       .title = "data",
       .doc = "time of the data phase in the median step; empty where it is not measured separately"},
      {.csv = "forward_seconds",
       .grid = "forward_time",
       .unit = Unit::seconds,
       .value = [](A, R r) { return value_named(r.phases, "forward"); },
       .title = "forward",
       .doc = "time of the forward in the median step"},
      {.csv = "backward_seconds",
       .grid = "backward_time",
       .unit = Unit::seconds,
       .value = [](A, R r) { return value_named(r.phases, "backward"); },
       .title = "backward",
       .doc = "time of the backward in the median step"},
      {.csv = "communication_seconds",
       .unit = Unit::seconds,
       .value = [](A, R r) { return value_named(r.phases, "communication"); },
       .title = "communication",
       .doc = "time for which the compute stream waits for communication in the median step"},
      {.csv = "optimizer_seconds",
       .grid = "optimizer_time",
       .unit = Unit::seconds,
       .value = [](A, R r) { return value_named(r.phases, "optimizer"); },
       .title = "optimizer",
       .doc = "time of the optimizer in the median step"},
      {.csv = "exposed_seconds",
       .json = "exposed_seconds",
       .grid = "exposed_time",
       .unit = Unit::seconds,
       .value = field<&Row::exposed_seconds>,
       .title = "exposed communication",
       .doc = "exposed communication per step: communication that no computation hides, median over ranks; "
              "empty for one rank"},
      {.csv = "sent_bytes",
       .json = "sent_bytes",
       .unit = Unit::bytes,
       .value = field<&Row::sent_bytes>,
       .doc = "bytes sent per step by the rank that sends most; empty for one rank"},
  };
}
}  // namespace optrush
