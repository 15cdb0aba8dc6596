#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exactness.h"

namespace optrush::testing {
using Stack = std::vector<PluginUse>;
PluginUse use(const char* name, Json options = Json::object());
/// expert_parallel over `ranks` ranks.
PluginUse experts_over(int64_t ranks);

/// A parallel strategy, and the number of data-parallel ranks.
struct MeshOfRanks {
  int64_t ranks, batch_ranks;
  Stack strategy;
};
/// "4 ranks: tensor_parallel{"size":2} fsdp{}"
std::string text_of(const MeshOfRanks&);

/// Makes the run of a test on a mesh, with the plugins `on_top`.
using SpecOf = std::function<RunSpec(const MeshOfRanks&, Stack on_top)>;

/// Calls expect_state_continues() from the first to the second mesh of each pair. Each step has four
/// sequences.
void expect_states_continue(RankPool&, const std::vector<std::pair<MeshOfRanks, MeshOfRanks>>&,
                            const SpecOf&);

/// Expects that optimizer_in_backward is refused if ranks hold parts of a parameter, and that two ranks with
/// copies train as one process.
void expect_in_backward_is_refused_for_parts(RankPool&, const std::vector<MeshOfRanks>& of_parts,
                                             const SpecOf&);
}  // namespace optrush::testing
