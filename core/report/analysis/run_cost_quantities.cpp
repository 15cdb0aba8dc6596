// Quantities: costs of a run besides its steps.
#include "report/analysis/quantity_parts.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;
}  // namespace

std::vector<Quantity> run_cost_quantities() {
  return {
      {.csv = "compile_seconds",
       .json = "compile_seconds",
       .grid = "compile_time",
       .unit = Unit::seconds,
       .value = field<&Row::compile_seconds>,
       .title = "compile",
       .doc = "compile time, which is not part of any step; largest over rounds, because later rounds may "
              "read a cache"},
      {.csv = "setup_seconds",
       .json = "setup_seconds",
       .unit = Unit::seconds,
       .value = field<&Row::setup_seconds>,
       .title = "set-up",
       .doc = "time to load and build everything before the first step"},
      {.csv = "joules_per_token",
       .json = "joules_per_token",
       .unit = Unit::joules,
       .value = field<&Row::joules_per_token>,
       .title = "energy per token",
       .doc = "energy of the timed steps by NVML, divided by their processed tokens"},
      {.csv = "cost_per_million_tokens",
       .json = "cost_per_million_tokens",
       .value = field<&Row::cost_per_million_tokens>,
       .doc = "cost per million processed tokens, where the script sets price_per_hour"},
      {.csv = "currency",
       .word = [](A a, R r) { return r.cost_per_million_tokens ? a.experiment.currency : std::string(); },
       .doc = "currency of that cost"},
  };
}
}  // namespace optrush
