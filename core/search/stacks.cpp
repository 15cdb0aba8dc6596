#include "search/stacks.h"

#include <algorithm>

#include "base/text.h"

namespace optrush {
std::vector<size_t> Stacks::choices() const {
  std::vector<size_t> sizes;
  for (const auto& axis : request_.axes) sizes.push_back(axis.size());
  return sizes;
}

std::string Stacks::name(const Picks& picks) const {
  if (picks.empty()) return "base";
  return join(texts_of(picks, [&](const Pick& pick) { return name(pick); }), " + ");
}

std::string Stacks::change(const Picks& from, const Picks& to) const {
  std::vector<std::string> parts;
  for (const Pick& pick : to)
    if (std::ranges::count(from, pick) == 0) parts.push_back("+ " + name(pick));
  for (const Pick& pick : from)
    if (std::ranges::count(to, pick) == 0) parts.push_back("- " + name(pick));
  return join(parts, ", ");
}

Variant Stacks::variant(const Picks& picks) const {
  if (picks.empty()) return {.name = name(picks), .spec = experiment_.base, .external = experiment_.program};
  // A grid with one choice per axis is one stack whose rungs may replace plugins of each other.
  Experiment one = experiment_;
  Part grid{.arrangement = Arrangement::grid};
  for (const Pick& pick : picks) grid.axes.push_back({rung(pick)});
  one.parts = {grid};
  const Variant stack = expand(one).back();
  return {.name = name(picks), .spec = stack.spec, .external = stack.external};
}
}  // namespace optrush
