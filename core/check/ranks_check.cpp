#include "check/ranks_check.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "optrush/error.h"
#include "simulated/device.h"
#include "train/run_setup.h"

namespace optrush {
namespace {
constexpr int64_t kRanks = 2;

/// Why a plan of the stack ends; empty: it does not, or for want of something in this machine.
std::string refusal_of_plan(RunSpec spec) {
  spec.train.world_size = kRanks;
  try {
    const at::Device device = simulated::open(simulated::Values::none, at::kCPU);
    const auto session = RunSetup::open(spec, device, Ranks::planned(0, kRanks));
    session->connect();
    session->declare();
    session->make_ready();
  } catch (const Skip&) {
  } catch (const Error& e) {
    return e.what();
  } catch (const c10::Error&) {  // an operator that has no sizes alone
  }
  return {};
}

}  // namespace

OnTwoRanks on_two_ranks(const CheckCase& c) {
  const Catalogue catalogue = Catalogue::find(c.spec.plugin_path);
  const auto for_several = [&](const PluginUse& use) { return catalogue.at(use.name).kind == "parallelism"; };
  RunSpec alone = c.spec;
  std::erase_if(alone.plugins, [&](const PluginUse& use) { return !for_several(use); });
  if (alone.plugins.empty() || alone.plugins.size() == c.spec.plugins.size()) return {};
  alone.data = {};
  RunSpec whole = c.spec;
  // One that splits the data, but has no gradients summed, takes another beside it.
  if (!refusal_of_plan(alone).empty()) {
    const auto helps = [&](const PluginDescription& other) {
      if (other.kind != "parallelism" || std::ranges::count(alone.plugins, other.name, &PluginUse::name) != 0)
        return false;
      RunSpec together = alone;
      together.plugins.push_back({other.name});
      return refusal_of_plan(together).empty();
    };
    const auto other = std::ranges::find_if(catalogue.plugins(), helps);
    if (other == catalogue.plugins().end()) return {};
    whole.plugins.push_back({other->name});
  }
  return {true, refusal_of_plan(whole)};
}
}  // namespace optrush
