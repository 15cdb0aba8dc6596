#include "train/measurement.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "optrush/error.h"
#include "recipe/boundary.h"

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

constexpr std::array kOverRanks = {"sum", "mean", "max"};  // in the order of the enum OverRanks

std::string place_of(const RunRecipe::Counted& counted) {
  return "plugin '" + counted.plugin + "' in its counter '" + counted.counter.name + "'";
}

double over_ranks(const std::string& how, const std::vector<double>& values) {
  if (how == "max") return std::ranges::max(values);
  double sum = 0;
  for (const double value : values) sum += value;
  return how == "mean" ? sum / static_cast<double>(values.size()) : sum;
}
}  // namespace

std::vector<double> Counters::read() const {
  std::vector<double> values;
  for (const auto& counted : recipe_.counters()) {
    double value = 0;
    call_plugin(place_of(counted), [&] { value = counted.read(); });
    if (!std::isfinite(value))
      throw Error(ErrorCode::invalid_plugin, "its value is " + std::to_string(value),
                  "a counter must be a finite number", place_of(counted));
    values.push_back(value);
  }
  return values;
}

void Counters::start() {
  before_ = read();
  added_.resize(before_.size());
}

void Counters::stop() {
  last_ = read();
  for (size_t i = 0; i < last_.size(); ++i) added_[i] += last_[i] - before_[i];
}

std::vector<CounterResult> Counters::results(int64_t steps) const {
  std::vector<CounterResult> results;
  for (size_t i = 0; i < last_.size(); ++i) {
    const auto& [plugin, counter, read] = recipe_.counters()[i];
    const bool by_step = counter.per == Per::step;
    results.push_back({.plugin = plugin,
                       .name = counter.name,
                       .unit = counter.unit,
                       .per_step = by_step,
                       .over_ranks = kOverRanks.at(static_cast<size_t>(counter.over_ranks)),
                       .value = by_step ? added_[i] / static_cast<double>(steps) : last_[i]});
  }
  return results;
}

std::vector<CounterResult> over_ranks(const std::vector<std::vector<CounterResult>>& ranks) {
  std::vector<CounterResult> all = ranks.front();
  for (const auto& own : ranks) {
    const auto [mine, first] =
        std::ranges::mismatch(own, all, [](const auto& a, const auto& b) { return a.same_as(b); });
    if (mine == own.end() && first == all.end()) continue;
    throw Error(ErrorCode::invalid_plugin,
                "plugin '" + (first == all.end() ? *mine : *first).plugin +
                    "' has different counters on different ranks",
                "record the same counters on every rank, in the same order");
  }
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<double> values;
    for (const auto& own : ranks) values.push_back(own[i].value);
    all[i].value = over_ranks(all[i].over_ranks, values);
  }
  return all;
}

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
  const auto joules = meter_.stop();
  joules_ = joules && joules_ ? std::optional(*joules_ + *joules) : std::nullopt;
  raise(peak_, memory_peak(session_.device()));
  add_sent(sent_, at_start_, session_.groups().traffic());
  const auto not_of_a_step = session_.groups().bookkeeping();
  counters_.stop();
  on_ = false;
}

std::optional<GpuUse> Measurement::gpu() const {
  const GpuReadings read = meter_.readings();
  GpuUse use{read.watts(), read.sm_clock_mhz, read.power_limit_watts, read.at_power_cap};
  return use.is_known() ? std::optional(use) : std::nullopt;
}

void Measurement::warn() const {
  std::vector<std::string> reasons;
  for (const std::string& reason : meter_.readings().throttling)
    if (reason != kPowerCap) reasons.push_back(reason);
  if (!reasons.empty())
    session_.log().warn("the GPU lowered its clock in the timed steps (" + join(reasons) +
                        "), so the rung may be faster on a cooler GPU");
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
