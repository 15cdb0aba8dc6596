#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "../scripts/described_plugins.h"
#include "../support/error_of.h"
#include "base/temporary_folder.h"
#include "experiment/stack.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::is_error;
using ::testing::IsEmpty;

Rung rung(const std::string& name, const std::vector<std::string>& plugins,
          const Json& settings = Json::object()) {
  Rung made{.name = name, .settings = settings, .where = name + ".lua:1"};
  for (const auto& plugin : plugins) made.plugins.push_back({plugin});
  return made;
}

Experiment experiment_with(std::vector<Part> parts) {
  return {.name = "test", .base = merged(RunSpec{}, Json::object(), "test"), .parts = std::move(parts)};
}
Experiment ladder(std::vector<Rung> rungs) { return experiment_with({{.rungs = std::move(rungs)}}); }

std::vector<std::string> stacked(const Variant& variant) {
  std::vector<std::string> names;
  for (const auto& use : variant.spec.plugins) names.push_back(use.name);
  return names;
}

std::vector<std::string> names(const std::vector<Variant>& variants) {
  std::vector<std::string> all;
  for (const auto& variant : variants) all.push_back(variant.name);
  return all;
}

TEST(Expand, EmptyExperimentHasOnlyTheBase) {
  const auto variants = expand(experiment_with({}));
  ASSERT_EQ(variants.size(), 1U);
  EXPECT_EQ(variants[0].name, "base");
  EXPECT_EQ(variants[0].group, "base");
  EXPECT_EQ(variants[0].previous, -1);
  EXPECT_EQ(variants[0].spec.experiment, "test");
}

std::vector<int64_t> owners(const std::vector<Variant>& variants) {
  std::vector<int64_t> owners;
  for (const auto& variant : variants) owners.push_back(variant.runs_of());
  return owners;
}

TEST(Expand, EqualStacksOfDifferentPartsAreRunOnce) {
  const std::vector<Rung> rungs = {rung("a", {"a"}), rung("b", {"b"})};
  const auto variants =
      expand(experiment_with({{.rungs = rungs}, {.arrangement = Arrangement::ablation, .rungs = rungs}}));
  EXPECT_THAT(names(variants),
              ElementsAre("base", "a", "b", "full", "without a", "without b", "a alone", "b alone"));
  // The full stack is the top of the ladder. "a", "without b" and "a alone" are one stack.
  EXPECT_THAT(owners(variants), ElementsAre(0, 1, 2, 2, 4, 1, 1, 4));
  EXPECT_FALSE(variants[3].has_own_runs());
  EXPECT_EQ(variant_from_json(to_json(variants[3]), "test").same_as, 2);
  Json old = to_json(variants[3]);
  old.erase("same_as");
  EXPECT_TRUE(variant_from_json(old, "test").has_own_runs()) << "old reports lack the field";
}

TEST(Expand, CombinationOfPlainChoicesEqualsTheBase) {
  const auto variants = expand(
      experiment_with({{.arrangement = Arrangement::grid,
                        .axes = {{rung("plain", {}), rung("a", {"a"})}, {rung("off", {}), rung("b", {"b"})}}},
                       {.rungs = {rung("b first", {"b"}), rung("then a", {"a"})}}}));
  // The order of plugins does not matter: the second rung of the ladder equals the last combination.
  EXPECT_THAT(owners(variants), ElementsAre(0, 0, 2, 3, 4, 2, 4));
}

TEST(Expand, StacksThatDifferInAnythingAreRun) {
  const Part of = {.arrangement = Arrangement::grid,
                   .axes = {{rung("s", {}, {{"train", {{"steps", 7}}}}), rung("t", {}, {{"timeout_s", 5.0}}),
                             rung("e", {}, {{"env", {{"A", "1"}}}}), rung("p", {"p"})}}};
  EXPECT_THAT(owners(expand(experiment_with({of}))), ElementsAre(0, 1, 2, 3, 4));
  Rung program{.name = "program", .external = External{.command = {"x"}}};
  EXPECT_THAT(owners(expand(experiment_with(
                  {{.arrangement = Arrangement::grid, .axes = {{program, rung("none", {})}}}}))),
              ElementsAre(0, 1, 0));
}

TEST(Expand, EqualRungsOfOneLadderAreAllRun) {
  EXPECT_THAT(owners(expand(ladder({rung("one", {}), rung("two", {}), rung("a", {"a"})}))),
              ElementsAre(0, 1, 2, 3));
}

TEST(Expand, VariantRecordsTheChangesOfItsRung) {
  Rung swap = rung("swap", {"b"}, {{"train", {{"micro_batch", 8}}}, {"device", "cpu"}});
  swap.replace = {"a"};
  const auto variants = expand(ladder({rung("first", {"a"}), swap}));
  ASSERT_EQ(variants.size(), 3U);
  EXPECT_EQ(variants[2].previous, 1);
  EXPECT_EQ(variants[2].spec.rung, "swap");
  EXPECT_EQ(variants[2].spec.variant, 2);
  EXPECT_EQ(variants[2].added.size(), 1U);
  EXPECT_THAT(variants[2].removed, ElementsAre("a"));
  EXPECT_EQ(variants[2].changed, Json::parse(R"({"train": {"micro_batch": 8}, "device": "cpu"})"));
}

TEST(Expand, OtherOptionsOfTheSamePluginAreAnAddition) {
  Rung again = rung("again", {"a"});
  again.plugins[0].options = {{"rank", 16}};
  again.replace = {"a"};
  const auto variants = expand(ladder({rung("first", {"a"}), again}));
  ASSERT_EQ(variants[2].added.size(), 1U);
  EXPECT_EQ(variants[2].added[0].options["rank"], 16);
  EXPECT_THAT(variants[2].removed, IsEmpty());
}

Rung external(const std::string& name) {
  Rung made = rung(name, {}, {{"train", {{"steps", 3}}}});
  made.external = External{.command = {"train", name}};
  return made;
}

TEST(Expand, ExternalRungIsNoStepOfItsLadder) {
  const auto variants = expand(ladder({rung("a", {"a"}), external("other"), rung("b", {"b"})}));
  ASSERT_EQ(names(variants), (std::vector<std::string>{"base", "a", "other", "b"}));
  EXPECT_EQ(variants[2].group, "external");
  EXPECT_EQ(variants[2].previous, 1);
  EXPECT_THAT(stacked(variants[2]), ElementsAre("a")) << "it keeps the plugins of the rungs below";
  EXPECT_EQ(variants[2].spec.train.steps, 3);
  EXPECT_EQ(variants[2].external->command.back(), "other");
  EXPECT_EQ(variants[3].previous, 1) << "no rung builds on another program";
  EXPECT_EQ(variants[3].spec.train.steps, TrainSpec{}.steps);
  EXPECT_FALSE(variants[3].external);
}

TEST(Expand, ExternalRungOfAnAblationHasTheFullStack) {
  const auto variants =
      expand(experiment_with({{.arrangement = Arrangement::ablation,
                               .rungs = {rung("x", {"a"}), external("other"), rung("y", {"b"})}}}));
  EXPECT_THAT(names(variants),
              ElementsAre("base", "full", "without x", "without y", "x alone", "y alone", "other"));
  EXPECT_EQ(variants.back().previous, 1);
  EXPECT_THAT(stacked(variants.back()), ElementsAre("a", "b"));
}

TEST(Expand, AnExternalRungIsAChoiceOfAGrid) {
  const auto grid = [](std::vector<std::vector<Rung>> axes) {
    return expand(experiment_with({{.arrangement = Arrangement::grid, .axes = std::move(axes)}}));
  };
  const auto variants = grid({{rung("1", {}), rung("2", {}, {{"train", {{"micro_batch", 2}}}})},
                              {rung("own", {}), external("other")}});
  EXPECT_THAT(names(variants), ElementsAre("base", "1 + own", "1 + other", "2 + own", "2 + other"));
  EXPECT_FALSE(variants[3].external);
  EXPECT_TRUE(variants[4].external);
  EXPECT_EQ(variants[4].spec.train.micro_batch, 2);
  EXPECT_THAT(error_of([&] { grid({{external("p")}, {external("q")}}); }), HasSubstr("both external"));
}

/// A rung that adds an argument to the program below.
Rung flag(const std::string& name, const std::string& word) {
  Rung made = rung(name, {});
  made.program = {{.rung = name, .args = {word}}};
  return made;
}

Experiment program_with(std::vector<Part> parts) {
  Experiment e = experiment_with(std::move(parts));
  e.base = merged(RunSpec{}, {{"model_kind", "program"}}, "test");
  e.program = External{.command = {"train"}};
  return e;
}

std::string command_of(const Variant& variant) {
  std::string text;
  for (const auto& word : full_command(*variant.external)) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(Expand, FlagsAreStackedOnTheProgramOfTheBase) {
  Rung other = flag("c", "-c");
  other.program[0].command = {"fast"};
  const auto variants =
      expand(program_with({{.rungs = {flag("a", "-a"), external("other"), flag("b", "-b"), other}}}));
  EXPECT_EQ(command_of(variants[0]), "train");
  EXPECT_EQ(command_of(variants[1]), "train -a");
  EXPECT_EQ(command_of(variants[2]), "train other") << "beside the ladder, without its flags";
  EXPECT_EQ(variants[2].group, "external");
  EXPECT_EQ(command_of(variants[3]), "train -a -b");
  EXPECT_EQ(variants[3].previous, 1);
  EXPECT_EQ(command_of(variants[4]), "fast -a -b -c") << "another command keeps the flags";
  EXPECT_EQ(variants[4].group, "ladder");
}

TEST(Expand, FlagsOfAProgramBesideTheLadder) {
  Rung over = external("second");
  over.over = "first";
  const auto variants = expand(ladder(
      {rung("a", {"a"}), external("first"), flag("first -x", "-x"), over, flag("y", "-y"), rung("b", {})}));
  EXPECT_EQ(command_of(variants[3]), "train first -x");
  EXPECT_EQ(variants[3].previous, 2);
  EXPECT_EQ(variants[3].group, "external");
  EXPECT_EQ(variants[4].previous, 2) << "the stated one";
  EXPECT_EQ(command_of(variants[5]), "train second -y") << "the last program";
  EXPECT_EQ(variants[6].previous, 1);
  EXPECT_FALSE(variants[6].external);
  EXPECT_THAT(error_of([] { expand(ladder({flag("x", "-x")})); }), HasSubstr("no program is below it"));
}

TEST(Expand, PluginsCannotBeStackedOnAProgram) {
  EXPECT_THAT(error_of([] { expand(program_with({{.rungs = {rung("p", {"a"})}}})); }),
              HasSubstr("on a program, which plugins cannot change"));
  Rung over = rung("p", {"a"});
  over.over = "other";
  EXPECT_THAT(error_of([&] { expand(ladder({external("other"), over})); }), HasSubstr("which is a program"));
  const auto ours = expand(program_with({{.rungs = {rung("p", {"a"}, {{"model_kind", "llama"}})}}}));
  EXPECT_FALSE(ours[1].external) << "the worker trains the model";
}

TEST(Expand, AProgramWithoutAModelHasNoStart) {
  EXPECT_THAT(error_of([] { expand(program_with({{.rungs = {flag("a", "--start={start}")}}})); }),
              HasSubstr("'--start={start}' in the command of 'a' needs a model"));
}

TEST(Expand, FlagsInAnAblationAndWithout) {
  const auto ablation = expand(
      program_with({{.arrangement = Arrangement::ablation, .rungs = {flag("a", "-a"), flag("b", "-b")}}}));
  EXPECT_EQ(command_of(ablation[1]), "train -a -b");
  EXPECT_EQ(command_of(ablation[2]), "train -b");
  EXPECT_EQ(command_of(ablation[4]), "train -a");
  Rung without = rung("c", {});
  without.without = {"a"};
  const auto ladder = expand(program_with({{.rungs = {flag("a", "-a"), flag("b", "-b"), without}}}));
  EXPECT_EQ(command_of(ladder[3]), "train -b");
}

TEST(Expand, AProgramSurvivesJson) {
  const Experiment e = program_with({{.rungs = {flag("a", "-a")}}});
  const Experiment again = experiment_from_json(to_json(e), "test");
  EXPECT_EQ(again.program, e.program);
  EXPECT_EQ(again.parts[0].rungs[0].program, e.parts[0].rungs[0].program);
  const Variant variant = expand(e).back();
  EXPECT_EQ(variant_from_json(to_json(variant), "test").external, variant.external);
}

TEST(Expand, AnExternalRungSurvivesJson) {
  Rung other = external("other");
  other.external->files = {{"x.py", "00"}};
  other.external->effect = Effect::precision;
  const Experiment e = ladder({other});
  EXPECT_EQ(experiment_from_json(to_json(e), "test").parts[0].rungs[0].external, other.external);
  const Variant variant = expand(e).back();
  EXPECT_EQ(variant_from_json(to_json(variant), "test").external, variant.external);
}

TEST(Expand, EnvironmentOverridesThatOfTheRungsBelow) {
  const auto env = [](Json variables) { return Json{{"env", std::move(variables)}}; };
  Rung other = external("other");
  other.settings = env({{"B", "2"}});
  const auto variants =
      expand(ladder({rung("a", {}, env({{"A", "1"}})), other, rung("c", {}, env({{"A", "0"}, {"C", ""}}))}));
  using Environment = std::map<std::string, std::string>;
  EXPECT_EQ(variants[1].spec.environment, (Environment{{"A", "1"}}));
  EXPECT_EQ(variants[2].spec.environment, (Environment{{"A", "1"}, {"B", "2"}}))
      << "it keeps the environment of a";
  EXPECT_EQ(variants[3].spec.environment, (Environment{{"A", "0"}, {"C", ""}}));
  EXPECT_EQ(variants[3].changed, env({{"A", "0"}, {"C", ""}}));
}

TEST(Expand, AblationLeavesOutAndIsolates) {
  const auto variants =
      expand(experiment_with({{.arrangement = Arrangement::ablation,
                               .rungs = {rung("x", {"a"}), rung("y", {"b"}), rung("z", {"c"})}}}));
  EXPECT_THAT(names(variants), ElementsAre("base", "full", "without x", "without y", "without z", "x alone",
                                           "y alone", "z alone"));
  EXPECT_THAT(stacked(variants[1]), ElementsAre("a", "b", "c"));
  EXPECT_THAT(stacked(variants[3]), ElementsAre("a", "c"));
  EXPECT_THAT(stacked(variants[6]), ElementsAre("b"));
  EXPECT_EQ(variants[1].previous, 0);
  EXPECT_EQ(variants[3].previous, 1) << "compared with the full stack";
  EXPECT_EQ(variants[6].previous, 0) << "compared with the base";
}

TEST(Expand, PublishedFiguresOfAnAblationBelongToTheRungAlone) {
  Rung published = rung("x", {"a"});
  published.expect = Published{.speedup = 1.12, .source = "a paper"};
  const auto variants = expand(
      experiment_with({{.arrangement = Arrangement::ablation, .rungs = {published, rung("y", {"b"})}}}));
  for (const Variant& variant : variants)
    EXPECT_EQ(variant.expect.has_value(), variant.name == "x alone") << variant.name;
  EXPECT_EQ(variants[4].expect->speedup, 1.12);
}

TEST(Expand, GridTakesEveryCombination) {
  const auto variants =
      expand(experiment_with({{.arrangement = Arrangement::grid,
                               .axes = {{rung("a1", {"a"}), rung("a2", {})},
                                        {rung("b1", {"b"}), rung("b2", {"c"}), rung("b3", {})}}}}));
  EXPECT_THAT(names(variants),
              ElementsAre("base", "a1 + b1", "a1 + b2", "a1 + b3", "a2 + b1", "a2 + b2", "a2 + b3"));
  EXPECT_THAT(stacked(variants[2]), ElementsAre("a", "c"));
  EXPECT_THAT(stacked(variants[6]), IsEmpty());
}

/// The expected ladder, in the slow way: each prefix folded from the base.
std::vector<std::string> plugins_folded_from_base(const std::vector<Rung>& rungs, size_t count, Json& train) {
  std::vector<std::string> plugins;
  for (size_t i = 0; i < count; ++i) {
    for (const auto& gone : rungs[i].replace) std::erase(plugins, gone);
    for (const auto& gone : rungs[i].without) std::erase(plugins, gone);
    for (const auto& use : rungs[i].plugins) plugins.push_back(use.name);
    if (rungs[i].settings.contains("train"))
      for (const auto& [key, value] : rungs[i].settings["train"].items()) train[key] = value;
  }
  return plugins;
}

/// A ladder in which every `replace` and `without` names a stacked plugin.
std::vector<Rung> random_ladder(std::mt19937& random) {
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  std::vector<Rung> rungs;
  std::vector<std::string> on;
  size_t made = 0;
  for (size_t i = 0; i < 1 + below(8); ++i) {
    Rung next = rung("rung " + std::to_string(i), {});
    std::vector<std::string>* const lists[] = {&next.replace, &next.without};
    for (auto* list : lists) {
      if (on.empty() || below(3) != 0) continue;
      const size_t gone = below(on.size());
      list->push_back(on[gone]);
      on.erase(on.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    for (size_t n = below(3); n > 0; --n) {
      next.plugins.push_back({"plugin" + std::to_string(made++)});
      on.push_back(next.plugins.back().name);
    }
    if (below(2) == 0) next.settings["train"] = {{below(2) == 0 ? "steps" : "micro_batch", 1 + below(100)}};
    rungs.push_back(next);
  }
  return rungs;
}

TEST(Expand, EachPrefixOfARandomLadderEqualsItsFoldedRungs) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto rungs = random_ladder(random);
    const auto variants = expand(ladder(rungs));
    ASSERT_EQ(variants.size(), rungs.size() + 1);
    for (size_t i = 0; i < variants.size(); ++i) {
      Json train = to_json(TrainSpec{});
      EXPECT_EQ(stacked(variants[i]), plugins_folded_from_base(rungs, i, train));
      EXPECT_EQ(to_json(variants[i].spec.train), train);
      EXPECT_EQ(variants[i].index, static_cast<int64_t>(i));
      EXPECT_EQ(variants[i].previous, static_cast<int64_t>(i) - 1);
    }
  }
}

TEST(Expand, AdditionsAndRemovalsGiveTheVariantFromThePreviousOne) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const auto variants = expand(ladder(random_ladder(random)));
    for (size_t i = 1; i < variants.size(); ++i) {
      const auto before = stacked(variants[i - 1]), now = stacked(variants[i]);
      std::set<std::string> reached(before.begin(), before.end());
      for (const auto& name : variants[i].removed) EXPECT_EQ(reached.erase(name), 1U);
      for (const auto& use : variants[i].added) EXPECT_TRUE(reached.insert(use.name).second);
      EXPECT_EQ(reached, std::set<std::string>(now.begin(), now.end()));
    }
  }
}

TEST(Expand, ErrorsNameThePlaceOfTheRung) {
  Rung off = rung("off", {});
  off.without = {"unknown"};
  EXPECT_THAT(error_of([&] {
                expand(ladder({rung("on", {"a"}), off}));
              }),
              is_error("unknown_name", "off.lua:1", "'off'", "'unknown'"));
  EXPECT_THAT(error_of([&] {
                expand(ladder({rung("on", {"a"}), rung("on again", {"a"})}));
              }),
              is_error("conflict", "again.lua:1", "'on again'", "'a'", "'on'", "on.lua:1"));
  EXPECT_THAT(error_of([&] {
                expand(ladder({rung("bad", {}, {{"train", {{"stesp", 1}}}})}));
              }),
              is_error("unknown_name", "bad.lua:1", "'stesp'"));
  EXPECT_THAT(error_of([&] {
                expand(ladder({rung("same", {}), rung("same", {})}));
              }),
              is_error("conflict", "'same'"));
  Experiment base = experiment_with({});
  base.base.plugins = {{"a"}, {"a"}};
  EXPECT_THAT(error_of([&] { expand(base); }), is_error("conflict", "'a'"));
}

TEST(Expand, BasesKeepTheirPlugins) {
  Experiment experiment = ladder({rung("more", {"b"})});
  experiment.base.plugins = {{"a"}};
  const auto variants = expand(experiment);
  EXPECT_THAT(stacked(variants[0]), ElementsAre("a"));
  EXPECT_THAT(stacked(variants[1]), ElementsAre("a", "b"));
  EXPECT_EQ(variants[0].added.size(), 1U);
  EXPECT_THAT(error_of([&] { expand(experiment_with({{.rungs = {rung("again", {"a"})}}})); }), IsEmpty());
  experiment.parts[0].rungs[0].plugins = {{"a"}};
  EXPECT_THAT(error_of([&] { expand(experiment); }), HasSubstr("which the base already stacks"));
}

TEST(ExperimentJson, RoundTrips) {
  Experiment experiment =
      experiment_with({{.rungs = {rung("a", {"p"}, {{"train", {{"steps", 3}}}})}},
                       {.arrangement = Arrangement::grid, .axes = {{rung("b", {"q"})}, {rung("c", {})}}}});
  experiment.parts[0].rungs[0].plugins[0].options = {{"rank", 8}};
  experiment.parts[0].rungs[0].without = {"z"};
  experiment.question = "Why?";
  experiment.rounds = 3;
  experiment.price_per_hour = 1.25;
  experiment.base.model = to_json(LlamaSpec{});
  const Json json = to_json(experiment);
  EXPECT_EQ(to_json(experiment_from_json(json, "test")), json);
  Json wrong = json;
  wrong["parts"][0]["arrangement"] = "lader";
  EXPECT_THAT(error_of([&] { experiment_from_json(wrong, "x.json"); }),
              is_error("invalid_value", "'ladder'"));
}

TEST(ExperimentJson, FormerNamesAreRead) {
  Experiment experiment;
  experiment.interleave = Interleave::off;
  Json json = to_json(experiment);
  json["turns"] = json.at("interleave");
  json.erase("interleave");
  EXPECT_EQ(experiment_from_json(json, "test").interleave, Interleave::off);
}

TEST(ExperimentJson, VariantsRoundTrip) {
  Experiment experiment = ladder({rung("a", {"p"}, {{"train", {{"steps", 3}}}})});
  experiment.base.model = to_json(LlamaSpec{});
  for (const auto& variant : expand(experiment)) {
    const Json json = to_json(variant);
    EXPECT_EQ(to_json(variant_from_json(json, "test")), json);
  }
}

TEST(RunId, IsAFolderNameThatSortsInReportOrder) {
  Variant variant{.index = 3, .name = "FlashAttention, 2nd try"};
  RunSpec spec;
  EXPECT_EQ(run_id(variant, spec), "03-flashattention-2nd-try-r1");
  spec.round = 11;
  EXPECT_EQ(run_id(variant, spec), "03-flashattention-2nd-try-r12");
  spec.purpose = Purpose::probe;
  EXPECT_EQ(run_id(variant, spec), "03-flashattention-2nd-try-probe");
  variant = {.index = 120, .name = "../../Größe"};
  EXPECT_EQ(run_id(variant, spec), "120-gr-e-probe");
  variant.name = "速い";
  EXPECT_EQ(run_id(variant, spec), "120-rung-probe");
  variant.name = std::string(80, 'x');
  EXPECT_EQ(run_id(variant, spec), "120-" + std::string(40, 'x') + "-probe");
}

TEST(CheckStack, NamesBothPluginsAndThePlace) {
  const TemporaryFolder folder;
  testing::write_described_plugins(folder.path());
  const auto catalogue = Catalogue::find({folder.path()});
  const auto check = [&](const std::vector<std::string>& plugins) {
    const auto variants = expand(ladder({rung("r", plugins)}));
    return error_of([&] { check_stacks({variants[1]}, catalogue); });
  };
  EXPECT_THAT(check({"fused_adamw", "lora", "mixed_precision", "grad_scaler"}), IsEmpty());
  EXPECT_THAT(check({"grad_scaler", "mixed_precision"}), IsEmpty()) << "the order does not matter";
  for (const auto& both :
       {std::vector<std::string>{"fused_adamw", "eight_bit"}, {"eight_bit", "fused_adamw"}})
    EXPECT_THAT(check(both), is_error("conflict", "r.lua:1", "'r'", "'eight_bit'", "'fused_adamw'"));
  EXPECT_THAT(check({"grad_scaler", "lora"}),
              is_error("missing_value", "'grad_scaler'", "'mixed_precision'"));
  EXPECT_THAT(check({"lorra"}), HasSubstr("did you mean 'lora'?"));
}
TEST(Expand, ExcessiveRoundsAreRefused) {
  Experiment experiment;
  experiment.rounds = 1'000'000;
  EXPECT_THAT(error_of([&] { expand(experiment); }), HasSubstr("1000000 rounds"));
}

TEST(Expand, RefusedRungsAreSkipped) {
  Experiment experiment{.name = "x"};
  Part ladder;
  ladder.rungs = {{.name = "a", .plugins = {{"one", Json::object()}}},
                  {.name = "bad", .plugins = {{"two", Json::object()}}},
                  {.name = "b", .plugins = {{"three", Json::object()}}, .replace = {"two"}},
                  {.name = "c", .plugins = {{"four", Json::object()}}},
                  {.name = "d", .plugins = {{"five", Json::object()}}, .over = "bad"}};
  experiment.parts = {ladder};
  const auto names = [](const Variant& variant) {
    std::vector<std::string> names;
    for (const auto& use : variant.spec.plugins) names.push_back(use.name);
    return names;
  };
  const auto variants = expand(experiment, {"bad"});
  ASSERT_EQ(variants.size(), 6U);
  EXPECT_EQ(names(variants[2]), (std::vector<std::string>{"one", "two"})) << "the refused rung keeps its row";
  EXPECT_EQ(names(variants[3]), (std::vector<std::string>{"one", "three"}));
  EXPECT_EQ(variants[3].previous, 1);
  EXPECT_EQ(variants[3].passed_over, std::vector<std::string>{"bad"});
  EXPECT_EQ(variants[4].previous, 3);
  EXPECT_TRUE(variants[4].passed_over.empty());
  EXPECT_EQ(names(variants[5]), (std::vector<std::string>{"one", "five"}))
      << "a rung over the refused one skips its plugin";
  EXPECT_EQ(variant_from_json(to_json(variants[3]), "").passed_over, variants[3].passed_over);
  EXPECT_EQ(variants[3].index, expand(experiment)[3].index) << "rows keep their indices";
}

Experiment seeded(const Json& seeds, std::vector<Rung> rungs = {}) {
  Experiment experiment = ladder(std::move(rungs));
  set_seeds(seeds, experiment, "test.lua:3");
  return experiment;
}

TEST(Seeds, AreListedOrCountedFromTheFirst) {
  Experiment experiment = seeded(3);
  EXPECT_THAT(experiment.seeds, ElementsAre(1, 2, 3));
  EXPECT_EQ(experiment.rounds, 3);
  experiment = seeded({5, 0});
  EXPECT_THAT(experiment.seeds, ElementsAre(5, 0));
  EXPECT_EQ(expand(experiment).front().spec.train.seed, 5);
  EXPECT_EQ(experiment_from_json(to_json(experiment), "test").seeds, experiment.seeds);
  EXPECT_FALSE(to_json(ladder({})).contains("seeds"));
}

TEST(Seeds, MustBeDifferentWholeNumbers) {
  for (const Json& bad :
       {Json(0), Json(-1), Json(1.5), Json("two"), Json::array(), Json({1, -2}), Json({1, "a"})})
    EXPECT_THAT(error_of([&] { seeded(bad); }), HasSubstr("seeds cannot be " + bad.dump())) << bad;
  EXPECT_THAT(error_of([] { seeded({1, 2, 1}); }), HasSubstr("the seed 1 is given twice"));
  EXPECT_THAT(error_of([] { expand(seeded(1000000000)); }), HasSubstr("the maximum is 10000"));
}

TEST(Seeds, AreTheRounds) {
  Experiment experiment = seeded(3);
  experiment.rounds = 5;
  EXPECT_THAT(error_of([&] { expand(experiment); }), HasSubstr("rounds of this experiment are its 3 seeds"));
  experiment = seeded(3);
  experiment.until = Until{.at_most_s = 60};
  EXPECT_THAT(error_of([&] { expand(experiment); }), HasSubstr("rounds of this experiment are its 3 seeds"));
  experiment = seeded(3, {rung("other", {}, {{"train", {{"seed", 8}}}})});
  EXPECT_THAT(error_of([&] { expand(experiment); }), HasSubstr("rung 'other' sets train.seed"));
}

TEST(Seeds, AProgramGetsThem) {
  Rung program = rung("program", {});
  program.external = External{.command = {"train.sh"}};
  EXPECT_THAT(error_of([&] { expand(seeded(2, {program})); }),
              HasSubstr("does not get the seed of its round"));
  program.external->command = {"train.sh", "--seed={seed}"};
  EXPECT_EQ(expand(seeded(2, {program})).size(), 2);
}

TEST(StopBehind, NeedsATargetAndNoSavedStates) {
  Experiment experiment = ladder({});
  experiment.stop_behind = 1.5;
  EXPECT_THAT(error_of([&] { expand(experiment); }), HasSubstr("stop_behind needs target_loss"));
  experiment.target_loss = 3;
  EXPECT_EQ(expand(experiment).size(), 1);
  experiment.base.save.every = 5;
  EXPECT_THAT(error_of([&] { expand(experiment); }), HasSubstr("cannot be combined with save"));
}
}  // namespace
}  // namespace optrush
