#include <map>

#include "report/format.h"
#include "report/grid.h"

namespace optrush {
namespace {
using MaybeNumber = std::optional<double>;
using A = const Analysis&;
using R = const Row&;

template <class Pairs>
MaybeNumber named(const Pairs& pairs, std::string_view wanted) {
  for (const auto& [name, value] : pairs)
    if (name == wanted) return value;
  return std::nullopt;
}

/// Per second of a phase: of what a step has to do in it.
MaybeNumber rate(R row, double Work::*amount, const char* phase) {
  const MaybeNumber seconds = named(row.phases, phase);
  if (!row.work || seconds.value_or(0) <= 0) return std::nullopt;
  return (*row.work).*amount / *seconds;
}

MaybeNumber bandwidth_share(A a, R row, double Work::*amount, const char* phase) {
  const auto limit = a.context.find("bandwidth_bytes_per_second");
  const MaybeNumber bytes = rate(row, amount, phase);
  if (!bytes || limit == a.context.end() || !limit->is_number()) return std::nullopt;
  return *bytes / limit->get<double>();
}

MaybeNumber intensity(A, R row) {
  if (!row.work) return std::nullopt;
  const Work& work = *row.work;
  return (work.forward_flops + work.backward_flops) / (work.forward_bytes + work.backward_bytes);
}

/// Of what a rank sends in a step; a receive is the other end of a send.
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

std::string gigabyte_rate(double rate) { return fixed(rate / 1e9, 2); }
std::string share(double fraction) { return percent(fraction); }
std::string loss(double nats) { return fixed(nats, 4); }

const std::map<std::string, Quantity, std::less<>>& quantities() {
  static const std::map<std::string, Quantity, std::less<>> all = {
      {"tokens_per_second", {[](A, R r) { return r.tokens_per_second; }, grouped}},
      {"step_time", {[](A, R r) { return r.step_seconds; }, duration, "seconds"}},
      {"data_time", {[](A, R r) { return named(r.phases, "data"); }, duration, "seconds"}},
      {"forward_time", {[](A, R r) { return named(r.phases, "forward"); }, duration, "seconds"}},
      {"backward_time", {[](A, R r) { return named(r.phases, "backward"); }, duration, "seconds"}},
      {"optimizer_time", {[](A, R r) { return named(r.phases, "optimizer"); }, duration, "seconds"}},
      {"compile_time", {[](A, R r) { return r.compile_seconds; }, duration, "seconds"}},
      {"peak_memory", {[](A, R r) { return r.memory.allocated; }, bytes, "bytes"}},
      {"activations", {[](A, R r) { return named(r.memory.parts, "activations"); }, bytes, "bytes"}},
      {"flops_per_second", {[](A, R r) { return r.model_flops_per_second; }, flops_rate}},
      {"mfu", {[](A, R r) { return r.mfu; }, share, "share"}},
      {"hfu", {[](A, R r) { return r.hfu; }, share, "share"}},
      {"forward_bandwidth", {[](A, R r) { return rate(r, &Work::forward_bytes, "forward"); }, gigabyte_rate}},
      {"backward_bandwidth",
       {[](A, R r) { return rate(r, &Work::backward_bytes, "backward"); }, gigabyte_rate}},
      {"forward_bandwidth_share",
       {[](A a, R r) { return bandwidth_share(a, r, &Work::forward_bytes, "forward"); }, share, "share"}},
      {"backward_bandwidth_share",
       {[](A a, R r) { return bandwidth_share(a, r, &Work::backward_bytes, "backward"); }, share, "share"}},
      {"forward_flops", {[](A, R r) { return rate(r, &Work::forward_flops, "forward"); }, flops_rate}},
      {"backward_flops", {[](A, R r) { return rate(r, &Work::backward_flops, "backward"); }, flops_rate}},
      {"intensity", {intensity, [](double x) { return grouped(x); }}},
      {"exposed_time", {[](A, R r) { return r.exposed_seconds; }, duration, "seconds"}},
      {"algorithm_bandwidth",
       {[](A, R r) { return per_exposed_second(r, sent(r, &Collective::bytes)); }, gigabyte_rate}},
      {"bus_bandwidth",
       {[](A, R r) { return per_exposed_second(r, sent(r, &Collective::sent_bytes)); }, gigabyte_rate}},
      {"collective_time", {collective_time, duration, "seconds"}},
      {"loss", {[](A, R r) { return r.final_loss; }, loss, "loss"}},
      {"validation_loss",
       {[](A, R r) { return r.validation.empty() ? MaybeNumber() : r.validation.back().loss; }, loss,
        "loss"}},
      {"time_to_loss",
       {[](A, R r) { return r.time_to_loss ? r.time_to_loss->seconds : MaybeNumber(); }, duration,
        "seconds"}},
      {"steps_to_loss",
       {[](A, R r) { return r.time_to_loss ? MaybeNumber(r.time_to_loss->steps) : MaybeNumber(); },
        [](double x) { return fixed(x, 0); }}},
  };
  return all;
}
}  // namespace

const Quantity& quantity_of(const std::string& column) { return quantities().at(column); }
}  // namespace optrush
