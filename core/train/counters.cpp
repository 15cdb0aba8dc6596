#include "train/counters.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "optrush/error.h"
#include "recipe/boundary.h"

namespace optrush {
namespace {
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
  for (const auto& own : ranks)
    if (!std::ranges::equal(own, all, [](const auto& a, const auto& b) { return a.same_as(b); })) {
      const auto differs =
          std::ranges::mismatch(own, all, [](const auto& a, const auto& b) { return a.same_as(b); });
      throw Error(ErrorCode::invalid_plugin,
                  "plugin '" + (differs.in2 == all.end() ? *differs.in1 : *differs.in2).plugin +
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
}  // namespace optrush
