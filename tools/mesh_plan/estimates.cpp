#include "mesh_plan/estimates.h"

#include <algorithm>

#include "mesh_plan/measured_hardware.h"
#include "optrush/error.h"

namespace optrush::mesh_plan {
namespace {
bool stands_on(const RunSpec& spec, const RunSpec& single) {
  return std::ranges::all_of(single.plugins, [&](const PluginUse& use) {
    return std::ranges::any_of(spec.plugins, [&](const PluginUse& own) {
      return own.name == use.name && own.options == use.options;
    });
  });
}

bool usable(const Analysis& a, const Row& row) { return row.step_seconds && trained_decoder(a, row); }

const Row* single_of(const Analysis& a, const Row& row) {
  const Row* best = nullptr;
  for (const Row& other : a.rows) {
    const bool fits = other.devices == 1 && usable(a, other) && a.spec(other).model == a.spec(row).model &&
                      stands_on(a.spec(row), a.spec(other));
    if (fits && (best == nullptr || a.spec(other).plugins.size() > a.spec(*best).plugins.size()))
      best = &other;
  }
  return best;
}
}  // namespace

double Estimate::estimated_sent() const {
  double bytes = 0;
  for (const MixTraffic& traffic : planned.cost.traffic) bytes += traffic.bytes;
  return bytes;
}

std::vector<Estimate> estimates_of(const Analysis& a, const Hardware& hardware) {
  if (hardware.node.bandwidth <= 0)
    throw UsageError("the bandwidth between the ranks is unknown",
                     "give --links with a report of experiments/interconnect.lua, or --link 2GB");
  std::vector<Estimate> estimates;
  for (const Row& row : a.rows) {
    if (row.devices < 2 || !usable(a, row)) continue;
    const Row* single = single_of(a, row);
    if (single == nullptr) continue;
    const auto [problem, mix] = measured_config(a, row);
    estimates.push_back({row.name, single->name, planned(mix, problem, reached_by(a, *single, hardware)),
                         *row.step_seconds, row.sent_bytes});
  }
  return estimates;
}
}  // namespace optrush::mesh_plan
