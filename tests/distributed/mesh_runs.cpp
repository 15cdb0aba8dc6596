#include "mesh_runs.h"

#include <gtest/gtest.h>

#include "random_training.h"
#include "support/error_of.h"

namespace optrush::testing {
PluginUse use(const char* name, Json options) { return {name, std::move(options)}; }

PluginUse experts_over(int64_t ranks) { return use("expert_parallel", {{"size", ranks}}); }

std::string text_of(const MeshOfRanks& mesh) {
  std::string text = std::to_string(mesh.ranks) + " ranks:";
  for (const PluginUse& plugin : mesh.strategy) text += " " + plugin.name + plugin.options.dump();
  return text;
}

void expect_states_continue(RankPool& pool, const std::vector<std::pair<MeshOfRanks, MeshOfRanks>>& cases,
                            const SpecOf& spec_of) {
  const auto resumed = [&](const MeshOfRanks& mesh) {
    RunSpec spec = spec_of(mesh, {});
    spec.train.micro_batch = 4 / mesh.batch_ranks;
    return spec;
  };
  for (const auto& [from, to] : cases) {
    SCOPED_TRACE("from " + text_of(from) + " to " + text_of(to));
    const RunSpec saving = resumed(from);
    expect_state_continues(pool, saving, resumed(to), one_process_of(saving, from.batch_ranks));
  }
}

void expect_in_backward_is_refused_for_parts(RankPool& pool, const std::vector<MeshOfRanks>& of_parts,
                                             const SpecOf& spec_of) {
  const Stack in_backward = {use("optimizer_in_backward")};
  for (const MeshOfRanks& mesh : of_parts)
    EXPECT_THAT(refusal_of(pool, spec_of(mesh, in_backward)), is_error("conflict", "'optimizer_in_backward'"))
        << text_of(mesh);
  const RunSpec copies = spec_of({2, 2, {use("ddp")}}, in_backward);
  expect_equal_training(pool, copies, one_process_of(copies, 2), 1e-9);
}
}  // namespace optrush::testing
