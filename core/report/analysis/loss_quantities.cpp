// Quantities: losses, and the results of the gate.
#include "report/analysis/quantity_parts.h"
#include "report/numbers/format.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;

/// For example "mine: gathers=12; mine: gathered=4096".
std::string counters_text(R row) {
  std::string text;
  for (const CounterResult& counter : row.counters)
    text +=
        (text.empty() ? "" : "; ") + counter.plugin + ": " + counter.name + "=" + exact_number(counter.value);
  return text;
}
}  // namespace

std::vector<Quantity> loss_quantities() {
  return {
      {.csv = "final_loss",
       .json = "final_loss",
       .grid = "loss",
       .unit = Unit::loss,
       .value = field<&Row::final_loss>,
       .title = "final loss",
       .doc = "last training loss of the first round that ended well"},
      {.csv = "loss_change",
       .json = "loss_change",
       .value = field<&Row::loss_change>,
       .doc = "difference of the loss from the reference of the correctness gate, at the last step that both "
              "have"},
      {.csv = "validation_loss",
       .json = "validation_loss",
       .grid = "validation_loss",
       .compared = "validation_loss",
       .unit = Unit::loss,
       .value =
           [](A, R r) {
             return r.validation.empty() ? MaybeNumber() : MaybeNumber(r.validation.back().loss);
           },
       .title = "validation loss",
       .doc = "validation loss after the last step of the first round"},
      {.csv = "seconds_to_loss",
       .grid = "time_to_loss",
       .unit = Unit::seconds,
       .value = [](A, R r) { return r.time_to_loss ? r.time_to_loss->seconds : MaybeNumber(); },
       .title = "time to loss",
       .doc = "time of training steps, warm-up included, until target_loss is reached; median over rounds; "
              "empty: not reached in every round"},
      {.csv = "steps_to_loss",
       .grid = "steps_to_loss",
       .unit = Unit::whole,
       .value = [](A, R r) { return r.time_to_loss ? MaybeNumber(r.time_to_loss->steps) : MaybeNumber(); },
       .title = "steps to loss",
       .doc = "number of these steps, in the round with the most"},
      {.csv = "counters",
       .word = [](A, R r) { return counters_text(r); },
       .doc = "counters of plugins, as in `mine: gathers=12; mine: gathered=4096`; medians over rounds"},
      {.csv = "gate_worst",
       .json = "gate/worst",
       .value = [](A, R r) { return r.verdict.compared ? MaybeNumber(r.verdict.loss.worst) : MaybeNumber(); },
       .doc = "largest relative difference of two losses"},
      {.csv = "gate_tolerance",
       .json = "gate/tolerance",
       .value =
           [](A, R r) { return r.verdict.compared ? MaybeNumber(r.verdict.loss.tolerance) : MaybeNumber(); },
       .doc = "largest difference allowed; 0: equal bits"},
      {.csv = "gate_norm_worst",
       .value = [](A, R r) { return r.verdict.norm ? MaybeNumber(r.verdict.norm->worst) : MaybeNumber(); },
       .doc = "largest relative difference of two gradient norms; empty where there are none"},
      {.csv = "gate_norm_tolerance",
       .value = [](A,
                   R r) { return r.verdict.norm ? MaybeNumber(r.verdict.norm->tolerance) : MaybeNumber(); },
       .doc = "largest difference of gradient norms allowed"},
  };
}
}  // namespace optrush
