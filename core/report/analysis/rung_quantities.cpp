// Quantities: names of a rung, its status, and its device.
#include "report/analysis/quantity_parts.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;
}  // namespace

std::vector<Quantity> rung_quantities() {
  return {
      {.csv = "experiment",
       .word = [](A a, R) { return a.experiment.name; },
       .doc = "name of the experiment"},
      {.csv = "label", .word = [](A a, R) { return a.experiment.label; }, .doc = "label of the report"},
      {.csv = "variant",
       .word = [](A, R r) { return std::to_string(r.variant); },
       .doc = "number of the rung; 0 is the base"},
      {.csv = "rung", .word = [](A, R r) { return r.name; }, .doc = "name of the rung"},
      {.csv = "group",
       .word = [](A, R r) { return r.group; },
       .doc = "base, ladder, full, without, alone, grid or external (another program, beside a ladder or an "
              "ablation)"},
      {.csv = "status",
       .word = [](A, R r) { return std::string(to_string(r.status)); },
       .doc = "ok, oom, failed, crashed, timeout, skipped or broken"},
      {.csv = "reason", .word = [](A, R r) { return r.reason; }, .doc = "reason for a status other than ok"},
      {.csv = "rounds",
       .word = [](A, R r) { return std::to_string(r.rounds.size()); },
       .doc = "number of rounds that ended well"},
      {.csv = "devices",
       .word = [](A, R r) { return std::to_string(r.devices); },
       .title = "devices",
       .doc = "number of devices that trained the rung"},
      {.csv = "world_size",
       .word = [](A a, R r) { return std::to_string(a.spec(r).train.world_size); },
       .doc = "number of processes that train one model together"},
  };
}
}  // namespace optrush
