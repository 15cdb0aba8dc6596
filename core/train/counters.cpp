#include "train/counters.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "optrush/error.h"
#include "recipe/boundary.h"

namespace optrush {
namespace {
constexpr std::array kOverRanks = {"sum", "mean", "max"};  // in the order of the enum
constexpr std::array kPer = {"run", "step"};

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
      throw Error("its value is " + std::to_string(value), "a counter must be a finite number",
                  place_of(counted));
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

Json Counters::to_json(int64_t steps) const {
  Json json = Json::object();
  for (size_t i = 0; i < last_.size(); ++i) {
    const auto& [plugin, counter, read] = recipe_.counters()[i];
    const bool by_step = counter.per == Per::step;
    json[plugin].push_back({{"name", counter.name},
                            {"unit", counter.unit},
                            {"per", kPer.at(static_cast<size_t>(counter.per))},
                            {"over_ranks", kOverRanks.at(static_cast<size_t>(counter.over_ranks))},
                            {"value", by_step ? added_[i] / static_cast<double>(steps) : last_[i]}});
  }
  return json;
}

Json over_ranks(const std::vector<Json>& counters) {
  Json all = counters.front();
  for (auto& [plugin, list] : all.items())
    for (size_t i = 0; i < list.size(); ++i) {
      std::vector<double> values;
      for (const Json& rank : counters) {
        const Json& own = rank.contains(plugin) ? rank.at(plugin) : Json();
        if (own.size() != list.size() || own.at(i).at("name") != list[i]["name"])
          throw Error("plugin '" + plugin + "' has different counters on different ranks",
                      "record the same counters on every rank, in the same order");
        values.push_back(own.at(i).at("value"));
      }
      list[i]["value"] = over_ranks(list[i]["over_ranks"], values);
    }
  return all;
}
}  // namespace optrush
