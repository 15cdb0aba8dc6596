#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exactness.h"

namespace optrush::testing {
using Stack = std::vector<PluginUse>;
PluginUse use(const char* name, Json options = Json::object());
/// expert_parallel over so many ranks.
PluginUse experts_over(int64_t ranks);

/// How ranks divide a training, and how many of them train on other data.
struct MeshOfRanks {
  int64_t ranks, batch_ranks;
  Stack strategy;
};
/// "4 ranks: tensor_parallel{"size":2} fsdp{}"
std::string text_of(const MeshOfRanks&);

/// Makes the run of a test on a mesh, with these plugins on top.
using SpecOf = std::function<RunSpec(const MeshOfRanks&, Stack on_top)>;

/// expect_state_goes_on() from the first to the second of each pair, with four sequences a step on each.
void expect_states_go_on(RankPool&, const std::vector<std::pair<MeshOfRanks, MeshOfRanks>>&, const SpecOf&);

/// optimizer_in_backward is refused where ranks keep parts of a parameter, and trains as one process does
/// where two ranks keep copies.
void expect_parts_are_not_updated_one_by_one(RankPool&, const std::vector<MeshOfRanks>& of_parts,
                                             const SpecOf&);
}  // namespace optrush::testing
