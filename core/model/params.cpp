#include <algorithm>
#include <numeric>

#include "base/suggest.h"
#include "optrush/error.h"
#include "optrush/param.h"
#include "optrush/unit.h"

namespace optrush {
int64_t Param::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Param& Params::add(Param param) {
  if (contains(param.name)) throw Error("two parameters are named '" + param.name + "'");
  return params_.emplace_back(std::move(param));
}

Param& Params::at(std::string_view name) {
  for (auto& param : params_)
    if (param.name == name) return param;
  std::vector<std::string> names;
  for (const auto& param : params_) names.push_back(param.name);
  throw Error("no parameter is named '" + std::string(name) + "'", did_you_mean(name, names));
}

bool Params::contains(std::string_view name) const {
  return std::any_of(params_.begin(), params_.end(), [&](const Param& p) { return p.name == name; });
}

std::vector<Param*> Params::all() {
  std::vector<Param*> all;
  for (auto& param : params_) all.push_back(&param);
  return all;
}

std::vector<const Param*> Params::all() const {
  std::vector<const Param*> all;
  for (const auto& param : params_) all.push_back(&param);
  return all;
}

std::vector<Param*> Unit::params() const {
  std::vector<Param*> all;
  const auto take = [&](const std::vector<Param*>& params) {
    for (Param* param : params)
      if (std::find(all.begin(), all.end(), param) == all.end()) all.push_back(param);
  };
  for (const auto& site : sites) take(site.params);
  for (const auto& child : children) take(child->params());
  return all;
}
}  // namespace optrush
