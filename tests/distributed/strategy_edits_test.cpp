// A strategy honours every edit of a slot, or refuses it before anything runs. Strategies come from the
// descriptions of the plugins, with each choice of their options, and slots from the recipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mesh_runs.h"
#include "plugin/description.h"
#include "recipe/run_recipe.h"
#include "slot_edits.h"
#include "support/error_of.h"
#include "support/folders.h"
#include "train/run_setup.h"

namespace optrush::testing {
namespace {
/// Slots whose functions place data or work, and compute no number of the model.
const std::set<std::string> kPlaces = {"rows",          "stages",   "data_parallel",
                                       "loss_gradient", "schedule", "evaluation"};

std::vector<std::string> slots() {
  std::vector<std::string> names;
  const RunRecipe recipe{RunSpec()};
  for (const SlotInfo* slot : recipe.slots())
    if (!kPlaces.contains(slot->name())) names.push_back(slot->name());
  return names;
}

/// Each strategy with its defaults, and with every other choice of one option that keeps the precision.
std::vector<PluginUse> strategy_list() {
  std::vector<PluginUse> all;
  const Catalogue catalogue = Catalogue::find({build_folder() + "/plugins"});
  for (const PluginDescription& plugin : catalogue.plugins()) {
    if (plugin.kind != "parallelism") continue;
    all.push_back({plugin.name});
    for (const OptionSchema& option : plugin.options) {
      if (!option.effects.empty()) continue;
      std::vector<Json> choices(option.choices.begin(), option.choices.end());
      if (option.type == "boolean") choices.emplace_back(!option.fallback.get<bool>());
      for (const Json& choice : choices)
        if (choice != option.fallback) all.push_back({plugin.name, {{option.name, choice}}});
    }
  }
  return all;
}

RunSpec edited_spec(const Stack& plugins, int64_t ranks, const std::string& slot) {
  Json model = {{"n_layers", 2}};
  const bool experts =
      slot == "router" || slot == "routing" || slot == "experts" ||
      std::ranges::any_of(plugins, [](const auto& use) { return use.name == "expert_parallel"; });
  if (experts) model.update({{"n_experts", 4}, {"experts_per_token", 2}, {"expert_ffn_dim", 12}});
  if (slot == "convolution" || slot == "delta_rule")
    model["delta_net"] = {{"key_heads", 2}, {"value_heads", 4}, {"key_dim", 4}, {"value_dim", 6}};
  if (slot == "geglu") model["activation"] = "gelu_tanh";
  RunSpec spec = small_spec(ranks, plugins, model);
  spec.train.warmup = spec.train.steps = 1;
  spec.train.accumulation = 2;
  return spec;
}

struct Outcome {
  std::string refusal;
  std::vector<double> losses;
};

Outcome outcome_of(const RunSpec& spec, const std::string& slot, const std::string& kind) {
  try {
    return {"", train_on(pool(), {.spec = spec, .edit = {slot, kind}}).losses};
  } catch (const Error& e) {
    return {e.what(), {}};
  }
}

/// Ranks with different sequences; each trains one micro-batch in place of one of the reference's two.
bool splits_the_batch(const PluginUse& use) {
  return use.name == "ddp" || use.name == "fsdp" || use.name == "expert_parallel";
}

/// The refusal of the strategy alone, to see whether it needs another strategy.
Stack stack_of(const PluginUse& strategy) {
  if (outcome_of(edited_spec({strategy}, 2, ""), "", "").refusal.empty()) return {strategy};
  return {strategy, use("ddp")};
}

TEST(StrategyEdits, EverySlotIsEditedByThisTest) {
  for (const std::string& slot : slots()) {
    RunRecipe recipe{RunSpec()};
    recipe.edit_as("aaa");
    EXPECT_TRUE(edit_slot(recipe, slot, "inside")) << slot;
  }
}

TEST(StrategyEdits, AreHonouredOrRefused) {
  int64_t honoured = 0, refused = 0;
  for (const PluginUse& strategy : strategy_list()) {
    const Stack stack = stack_of(strategy);
    const std::string alone = outcome_of(edited_spec(stack, 2, ""), "", "").refusal;
    EXPECT_TRUE(alone.empty() || !strategy.options.empty()) << strategy.name << ": " << alone;
    if (!alone.empty()) continue;
    const bool apart = splits_the_batch(strategy), experts = strategy.name == "expert_parallel";
    for (const std::string& slot : slots())
      for (const std::string& kind : edit_kinds()) {
        if (!strategy.options.empty() && kind != "inside") continue;  // what a strategy encloses
        {
          RunRecipe recipe{RunSpec()};
          recipe.edit_as("aaa");
          if (!edit_slot(recipe, slot, kind)) continue;
        }
        SCOPED_TRACE(text_of({2, 1, stack}) + ", slot " + slot + ", " + kind);
        RunSpec many = edited_spec(stack, 2, slot);
        if (apart) many.train.accumulation = 1;
        RunSpec one = edited_spec(stack, 1, slot);
        one.plugins.clear();
        const auto got = outcome_of(many, slot, kind);
        if (!got.refusal.empty()) {
          ++refused;
          continue;
        }
        ++honoured;
        const std::vector<double>& expected =
            reference_of(pool(), {.spec = one, .edit = {slot, kind}}).trained.losses;
        EXPECT_LT(difference(got.losses, expected), 1e-9);
        // The edit changes the training, so that a lost one is seen. One process does not use the separate
        // halves.
        if (slot == "attention_forward_backward") continue;
        if (slot == "geglu" && experts) continue;
        EXPECT_GT(difference(expected, reference_of(pool(), {.spec = one}).trained.losses), 1e-6);
      }
  }
  EXPECT_GT(honoured, 4 * refused) << honoured << " honoured, " << refused << " refused";
}

/// An axis of heads has the elements of all heads.
TEST(StrategyEdits, AnAxisWithOneElementForEachHeadIsNamed) {
  for (const int64_t elements : {4, 6, 12, 48}) {
    const std::string error = error_of([&] {
      const auto session = RunSetup::open(
          small_spec(2, {use("tensor_parallel")}), at::kCPU, Ranks::planned(0, 2), [&](RunRecipe& recipe) {
            recipe.edit_as("test");
            recipe.on(Event::meta_initialized, Phase::adapter, [&](optrush::Run& run) {
              Param sinks{.name = "sinks", .shape = {elements}, .axes = {"heads"}, .dtype = at::kDouble};
              run.modules("attention").front()->params.push_back(&run.params().add(std::move(sinks)));
            });
          });
      session->declare();
    });
    EXPECT_THAT(
        error, ::testing::HasSubstr("cannot split 'sinks': its axis 'heads' has " + std::to_string(elements) +
                                    " elements, but such an axis has 24, 6 for each head"));
  }
}

/// The derivative of the log-sum-exp, in a ring and in the fused kernel, with and without a window.
TEST(StrategyEdits, TheLogSumExpHasADerivativeEverywhere) {
  for (const int64_t window : {0, 5}) {
    const auto trained = [&](const Stack& plugins, int64_t ranks) {
      RunSpec spec = edited_spec(plugins, ranks, "");
      spec.train.steps = 3;
      if (window > 0) spec.model["window"] = window;
      return train_on(pool(), {.spec = spec, .edit = {"lse", ""}});
    };
    const TrainedRanks plain = trained({}, 1);
    for (const auto& [stack, ranks] : std::vector<std::pair<Stack, int64_t>>{
             {{use("flash_attention")}, 1},
             {{use("context_parallel"), use("ddp")}, 2},
             {{use("context_parallel"), use("ddp"), use("flash_attention")}, 2},
             {{use("tensor_parallel")}, 2}}) {
      const TrainedRanks other = trained(stack, ranks);
      EXPECT_LT(difference(other.losses, plain.losses), 1e-9) << text_of({ranks, 1, stack}) << window;
      EXPECT_LT(difference(other.norms, plain.norms), 1e-9) << text_of({ranks, 1, stack}) << window;
    }
  }
}

/// What a ring cannot honour: every change of attention inside of it.
TEST(StrategyEdits, ARingRefusesChangesOfItsAttention) {
  const Stack ring = {use("context_parallel"), use("ddp")};
  for (const char* slot : {"attention", "attention_forward_backward"})
    for (const std::string& kind : edit_kinds()) {
      const std::string refusal = outcome_of(edited_spec(ring, 2, slot), slot, kind).refusal;
      if (std::string(slot) == "attention" && kind == "outside") {
        EXPECT_EQ(refusal, "");
      } else {
        EXPECT_THAT(refusal, ::testing::HasSubstr("context_parallel: a ring would")) << slot << ", " << kind;
      }
    }
}
}  // namespace
}  // namespace optrush::testing
