#include "train/measurement.h"

#include <algorithm>

namespace optrush {
namespace {
/// Raises `highest` to the larger of the two peaks.
void raise(MemoryPeak& highest, const MemoryPeak& peak) {
  highest.allocated = std::max(highest.allocated, peak.allocated);
  if (peak.reserved) highest.reserved = std::max(highest.reserved.value_or(0), *peak.reserved);
}

/// Adds the traffic between two tables to `sum`.
void add_sent(TrafficTable& sum, const TrafficTable& before, const TrafficTable& now) {
  for (const auto& [key, traffic] : now) {
    const auto found = before.find(key);
    const Traffic then = found == before.end() ? Traffic{} : found->second;
    if (traffic.calls == then.calls) continue;
    Traffic& all = sum[key];
    all.ranks = traffic.ranks;
    all.calls += traffic.calls - then.calls;
    all.bytes += traffic.bytes - then.bytes;
    all.sent += traffic.sent - then.sent;
  }
}

double per_step(double total, int64_t steps) {
  return total / static_cast<double>(std::max<int64_t>(1, steps));
}
}  // namespace

Measurement::Measurement(Session& session)
    : session_(session), meter_(session.device()), counters_(session.recipe()) {}

void Measurement::start() {
  {
    const auto not_of_a_step = session_.groups().bookkeeping();  // a counter may communicate with other ranks
    counters_.start();
  }
  at_start_ = session_.groups().traffic();
  reset_memory_peak(session_.device());
  meter_.start();
  on_ = true;
}

void Measurement::stop() {
  const auto joules = meter_.joules();
  joules_ = joules && joules_ ? std::optional(*joules_ + *joules) : std::nullopt;
  raise(peak_, memory_peak(session_.device()));
  add_sent(sent_, at_start_, session_.groups().traffic());
  const auto not_of_a_step = session_.groups().bookkeeping();
  counters_.stop();
  on_ = false;
}

std::optional<int64_t> Measurement::process_bytes() const {
  return session_.device().is_cpu() ? peak_resident_bytes() : meter_.process_bytes();
}

std::vector<Collective> Measurement::collectives(int64_t steps) const {
  std::vector<Collective> list;
  for (const auto& [key, sent] : sent_) {
    const auto& [collective, group] = key;
    if (collective == "bookkeeping") continue;
    const auto theory = session_.expected_traffic().find(key);
    const bool known = theory != session_.expected_traffic().end();
    list.push_back({.name = collective,
                    .group = group,
                    .ranks = sent.ranks,
                    .calls = per_step(static_cast<double>(sent.calls), steps),
                    .bytes = per_step(sent.bytes, steps),
                    .sent_bytes = per_step(sent.sent, steps),
                    .theory_bytes = known ? std::optional(theory->second) : std::nullopt});
  }
  return list;
}
}  // namespace optrush
