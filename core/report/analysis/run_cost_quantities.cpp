// Quantities: costs of a run besides its steps.
#include "report/analysis/quantity_parts.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;

MaybeNumber joules_per_token(const RunResult& run) {
  if (!run.energy_joules || run.timed_tokens() == 0) return std::nullopt;
  return *run.energy_joules / static_cast<double>(run.timed_tokens());
}

MaybeNumber cost_per_million_tokens(A a, R row) {
  if (a.experiment.price_per_hour <= 0 || !row.tokens_per_second) return std::nullopt;
  return a.experiment.price_per_hour / 3600 / *row.tokens_per_second * 1e6;
}
}  // namespace

std::vector<Quantity> run_cost_quantities() {
  return {
      {.csv = "compile_seconds",
       .json = "compile_seconds",
       .grid = "compile_time",
       .run = "compile_seconds",
       .unit = Unit::seconds,
       .of_run = member<&RunResult::compile_seconds>,
       .over = OverRuns::largest,
       .title = "compile",
       .doc = "compile time, which is not part of any step; largest over rounds, because later rounds may "
              "read a cache"},
      {.csv = "setup_seconds",
       .json = "setup_seconds",
       .run = "setup_seconds",
       .unit = Unit::seconds,
       .of_run = member<&RunResult::setup_seconds>,
       .title = "set-up",
       .doc = "time to load and build everything before the first step"},
      {.run = "energy_joules", .of_run = member<&RunResult::energy_joules>},
      {.csv = "joules_per_token",
       .json = "joules_per_token",
       .unit = Unit::joules,
       .of_run = joules_per_token,
       .title = "energy per token",
       .doc = "energy of the timed steps by NVML, divided by their processed tokens"},
      {.csv = "cost_per_million_tokens",
       .json = "cost_per_million_tokens",
       .value = cost_per_million_tokens,
       .doc = "cost per million processed tokens, where the script sets price_per_hour"},
      {.csv = "currency",
       .word = [](A a, R r) { return cost_per_million_tokens(a, r) ? a.experiment.currency : std::string(); },
       .doc = "currency of that cost"},
  };
}
}  // namespace optrush
