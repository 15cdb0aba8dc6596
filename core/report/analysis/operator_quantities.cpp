// Quantities: rates of operators and collectives, shown only in grids.
#include "report/analysis/quantity_parts.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;

using Pass = OperatorWork::Pass;

constexpr auto kForward = &OperatorWork::forward, kBackward = &OperatorWork::backward;

/// The work of a pass per second of that pass.
MaybeNumber pass_rate(R row, Pass OperatorWork::*pass, double Pass::*amount) {
  const MaybeNumber seconds = value_named(row.phases, pass == kForward ? "forward" : "backward");
  if (!row.work || seconds.value_or(0) <= 0) return std::nullopt;
  return (*row.work).*pass.*amount / *seconds;
}

MaybeNumber bandwidth_share(A a, R row, Pass OperatorWork::*pass) {
  const auto limit = a.context.find("bandwidth_bytes_per_second");
  const MaybeNumber bytes = pass_rate(row, pass, &Pass::bytes);
  if (!bytes || limit == a.context.end() || !limit->is_number()) return std::nullopt;
  return *bytes / limit->get<double>();
}

MaybeNumber intensity(A, R row) {
  if (!row.work) return std::nullopt;
  const auto& [forward, backward] = *row.work;
  return (forward.flops + backward.flops) / (forward.bytes + backward.bytes);
}

/// The sum over what a rank sends in a step. A receive is the other end of a send and does not count.
double sent(R row, MaybeNumber Collective::*amount) {
  double sum = 0;
  for (const Collective& collective : row.collectives)
    if (collective.sent_bytes.value_or(0) > 0) sum += (collective.*amount).value_or(0);
  return sum;
}

MaybeNumber per_exposed_second(R row, double amount) {
  if (amount == 0 || row.exposed_seconds.value_or(0) <= 0) return std::nullopt;
  return amount / *row.exposed_seconds;
}

MaybeNumber collective_time(A, R row) {
  const MaybeNumber rate = per_exposed_second(row, sent(row, &Collective::calls));
  return rate ? MaybeNumber(1 / *rate) : std::nullopt;
}
}  // namespace

std::vector<Quantity> operator_quantities() {
  return {
      {.grid = "forward_bandwidth",
       .unit = Unit::gigabyte_rate,
       .value = [](A, R r) { return pass_rate(r, kForward, &Pass::bytes); },
       .title = "forward GB/s"},
      {.grid = "backward_bandwidth",
       .unit = Unit::gigabyte_rate,
       .value = [](A, R r) { return pass_rate(r, kBackward, &Pass::bytes); },
       .title = "backward GB/s"},
      {.grid = "forward_bandwidth_share",
       .unit = Unit::share,
       .value = [](A a, R r) { return bandwidth_share(a, r, kForward); },
       .title = "forward, of the bandwidth"},
      {.grid = "backward_bandwidth_share",
       .unit = Unit::share,
       .value = [](A a, R r) { return bandwidth_share(a, r, kBackward); },
       .title = "backward, of the bandwidth"},
      {.grid = "forward_flops",
       .unit = Unit::flop_rate,
       .value = [](A, R r) { return pass_rate(r, kForward, &Pass::flops); },
       .title = "forward FLOP/s"},
      {.grid = "backward_flops",
       .unit = Unit::flop_rate,
       .value = [](A, R r) { return pass_rate(r, kBackward, &Pass::flops); },
       .title = "backward FLOP/s"},
      {.grid = "intensity", .value = intensity, .title = "FLOPs per byte"},
      {.grid = "algorithm_bandwidth",
       .unit = Unit::gigabyte_rate,
       .value = [](A, R r) { return per_exposed_second(r, sent(r, &Collective::bytes)); },
       .title = "algorithm GB/s"},
      {.grid = "bus_bandwidth",
       .unit = Unit::gigabyte_rate,
       .value = [](A, R r) { return per_exposed_second(r, sent(r, &Collective::sent_bytes)); },
       .title = "bus GB/s"},
      {.grid = "collective_time",
       .unit = Unit::seconds,
       .value = collective_time,
       .title = "time per collective"},
  };
}
}  // namespace optrush
