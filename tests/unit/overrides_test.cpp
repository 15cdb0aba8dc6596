#include "cli/overrides.h"

#include <gmock/gmock.h>

#include "../scripts/described_plugins.h"
#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"

namespace optrush {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

class OverridesTest : public ::testing::Test {
 protected:
  void set(const std::string& assignment) { apply({.set = {assignment}}, experiment_); }
  std::string error(const std::string& assignment) {
    try {
      set(assignment);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  }
  Experiment experiment_{.name = "x"};
};

TEST_F(OverridesTest, RoundsAreANumberOrLeftOpen) {
  apply({.within = 0.02, .at_most = "90s"}, experiment_);
  EXPECT_EQ(experiment_.until, (Until{.within = 0.02, .at_most_s = 90}));
  apply({.at_most = "5m"}, experiment_);
  EXPECT_EQ(experiment_.until, (Until{.within = 0.02, .at_most_s = 300}));
  EXPECT_EQ(experiment_from_json(to_json(experiment_), "").until, experiment_.until);
  apply({.rounds = 4}, experiment_);
  EXPECT_FALSE(experiment_.until);
  EXPECT_EQ(experiment_.rounds, 4);
  apply({.at_most = "90s"}, experiment_);
  EXPECT_EQ(experiment_.until, (Until{.within = 0.03, .at_most_s = 90}));
  apply({.rounds = 4}, experiment_);
  const auto error_of = [&](const Overrides& overrides) -> std::string {
    try {
      apply(overrides, experiment_);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error_of({.rounds = 4, .within = 0.02, .at_most = "1h"}), HasSubstr("--within and --at-most"));
  EXPECT_THAT(error_of({.set = {"rounds=4"}, .within = 0.02, .at_most = "1h"}),
              HasSubstr("--within and --at-most"));
  EXPECT_THAT(error_of({.within = 0.02}), HasSubstr("--at-most"));
  EXPECT_THAT(error_of({.within = 0.02, .at_most = "5 days"}), HasSubstr("not a duration"));
  EXPECT_THAT(error_of({.within = 0, .at_most = "5m"}), HasSubstr("within"));
}

TEST_F(OverridesTest, PathsStartAtTheWorkingDirectory) {
  const TemporaryFolder folder;
  write_file(folder / "data.bin", "x");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto absolute = std::filesystem::current_path() / "data.bin";
  set(R"(data={"kind": "tokens", "path": "data.bin"})");
  EXPECT_EQ(experiment_.base.data.path, absolute);
  set("data.path=./data.bin");
  EXPECT_EQ(experiment_.base.data.path, absolute);
  EXPECT_THAT(error("data.path=other.bin"),
              AllOf(HasSubstr("other.bin"), HasSubstr("start at the working directory")));
  EXPECT_THAT(error("model.checkpoint=nowhere"), HasSubstr("no file or folder"));
  EXPECT_THAT(error(R"(validate={"data": {"kind": "text", "path": "nowhere"}})"),
              HasSubstr("no file or folder"));
  std::filesystem::current_path(before);
}

TEST(Until, ParsesDurations) {
  EXPECT_EQ(seconds_from(90, ""), 90);
  EXPECT_EQ(seconds_from("90", ""), 90);
  EXPECT_EQ(seconds_from("1.5h", ""), 5400);
  EXPECT_EQ(seconds_from("8min", ""), 480);
  for (const Json& wrong :
       {Json(0), Json(-1), Json(""), Json("m"), Json("5d"), Json("inf"), Json("nan"), Json(true)})
    EXPECT_THROW(seconds_from(wrong, ""), Error) << wrong;
}

TEST_F(OverridesTest, SettingsOfTheBase) {
  set("train.steps=4");
  set("train.lr=1e-3");
  set("model.n_layers=2");
  const TemporaryFolder folder;
  write_file(folder / "with spaces", "x");
  set(R"(data={"kind": "text", "path": "/"})");
  set("data.path=" + (folder / "with spaces").string());
  set("device=cpu");
  set("timeout=7");
  set("env.SOME_MODE=1");
  set("validate.every=5");
  set("validate.sequences=8");
  set("save.every=6");
  EXPECT_EQ(experiment_.base.validate.every, 5);
  EXPECT_EQ(experiment_.base.validate.sequences, 8);
  EXPECT_EQ(experiment_.base.validate.data.kind, "held_out");
  EXPECT_EQ(experiment_.base.save.every, 6);
  set(R"(train={"seed": 9, "warmup": 5})");
  EXPECT_EQ(experiment_.base.train.steps, 4);
  EXPECT_EQ(experiment_.base.train.lr, 1e-3);
  EXPECT_EQ(experiment_.base.model.at("n_layers"), 2);
  EXPECT_EQ(experiment_.base.data.path, folder / "with spaces");
  EXPECT_EQ(experiment_.base.device, "cpu");
  EXPECT_EQ(experiment_.base.timeout_s, 7);
  set("timeout_s=8");
  EXPECT_EQ(experiment_.base.timeout_s, 8) << "as in a stored spec";
  EXPECT_EQ(experiment_.base.environment.at("SOME_MODE"), "1");
  EXPECT_EQ(experiment_.base.train.seed, 9U);
  EXPECT_EQ(experiment_.base.train.warmup, 5);
}

TEST_F(OverridesTest, SettingsAreValidatedTogether) {
  apply({.set = {"train.lr_decay=cosine", "train.steps=6", "train.lr_min=0.1", "train.lr_steps=20"}},
        experiment_);
  EXPECT_EQ(experiment_.base.train.lr_decay, "cosine");
  EXPECT_EQ(experiment_.base.train.lr_steps, 20);
  EXPECT_EQ(experiment_.base.train.lr_min, 0.1);
  EXPECT_EQ(experiment_.base.train.steps, 6);
  const auto refused = [](std::vector<std::string> assignments) {
    Experiment fresh;
    return testing::error_of([&] { apply({.set = std::move(assignments)}, fresh); });
  };
  EXPECT_THAT(refused({"train.lr_decay=linear", "train.steps=4"}),
              AllOf(HasSubstr("--set train.lr_decay=linear: "), HasSubstr("train.lr_steps (0)")));
  EXPECT_THAT(refused({"train.lr_steps=4", "train.lr=-1"}),
              testing::is_error("invalid_value", "train.lr_steps", "4", "-1"));
}

TEST_F(OverridesTest, SettingsOfTheExperiment) {
  set("rounds=7");
  set("price_per_hour=2.5");
  set("currency=EUR");
  set("target_loss=2.5");
  EXPECT_EQ(experiment_.target_loss, 2.5);
  EXPECT_EQ(experiment_.rounds, 7);
  EXPECT_EQ(experiment_.price_per_hour, 2.5);
  EXPECT_EQ(experiment_.currency, "EUR");
}

TEST_F(OverridesTest, SettingsWithTheirOwnOption) {
  apply({.rounds = 2, .label = "h100", .device = "cuda", .threads = 3, .interleave = "off"}, experiment_);
  EXPECT_EQ(experiment_.rounds, 2);
  EXPECT_EQ(experiment_.interleave, Interleave::off);
  EXPECT_THAT(testing::error_of([&] { apply({.interleave = "maybe"}, experiment_); }),
              testing::is_error("invalid_value", "'auto'", "'on'", "'off'", "\"maybe\""));
  EXPECT_EQ(experiment_.label, "h100");
  EXPECT_EQ(experiment_.base.device, "cuda");
  EXPECT_EQ(experiment_.base.threads, 3);
}

class PluginOverrides : public OverridesTest {
 protected:
  PluginOverrides() {
    testing::write_described_plugins(plugins_.path());
    experiment_.base.plugin_path = {plugins_.path()};
    experiment_.base.plugins = {{"mixed_precision", {{"dtype", "bf16"}}}};
    experiment_.parts = {{.rungs = {adapters("adapters", 8), {.name = "wide"}}},
                         {.arrangement = Arrangement::grid, .axes = {{adapters("lora", 8)}}}};
  }
  static Rung adapters(const std::string& name, int64_t rank) {
    return {.name = name,
            .plugins = {{"lora", {{"rank", rank}, {"alpha", 16.0}, {"target_modules", {"q_proj"}}}}}};
  }
  const TemporaryFolder plugins_;
};

TEST_F(PluginOverrides, OptionChangesInEveryStackWithThePlugin) {
  set("lora.rank=16");
  set(R"(lora.target_modules=["k_proj", "v_proj"])");
  set("mixed_precision.dtype=fp16");
  const Json expected = {{"rank", 16}, {"alpha", 16.0}, {"target_modules", {"k_proj", "v_proj"}}};
  EXPECT_EQ(experiment_.parts[0].rungs[0].plugins[0].options, expected);
  EXPECT_EQ(experiment_.parts[1].axes[0][0].plugins[0].options, expected);
  EXPECT_EQ(experiment_.base.plugins[0].options.at("dtype"), "fp16");
  EXPECT_EQ(expand(experiment_).at(1).spec.plugins.at(1).options.at("rank"), 16);
}

TEST_F(PluginOverrides, MistakesAreNamedWithTheNearestKey) {
  EXPECT_THAT(error("validate.evry=4"), AllOf(HasSubstr("--set validate.evry=4"), HasSubstr("'every'")));
  EXPECT_THAT(error("valdate.every=4"), testing::is_error("--set valdate.every=4", "'validate'"));
  EXPECT_THAT(error("lroa.rank=16"), AllOf(HasSubstr("stacks a plugin"), HasSubstr("did you mean 'lora'?")));
  EXPECT_THAT(error("fused_adamw.x=1"), HasSubstr("no rung stacks a plugin of that name"));
  EXPECT_THAT(error("lora.rnak=16"),
              AllOf(HasSubstr("--set lora.rnak=16"), HasSubstr("did you mean 'rank'?")));
  EXPECT_THAT(error("lora.rank=many"), testing::is_error("--set lora.rank=many", "1", "4096"));
  EXPECT_THAT(error("mixed_precision.dtype=bf61"), HasSubstr("did you mean 'bf16'?"));
  EXPECT_THAT(error("lora=16"), AllOf(HasSubstr("'lora' is a plugin"), HasSubstr("lora.rank")));
  EXPECT_THAT(error("lora.rank.more=16"), HasSubstr("'lora' is a plugin"));
}

TEST_F(PluginOverrides, RungsThatWouldBecomeIdenticalAreAnError) {
  experiment_.parts[0].rungs.push_back(adapters("high rank", 64));
  EXPECT_THAT(error("lora.rank=16"),
              AllOf(HasSubstr("would make these rungs identical"), HasSubstr("'high rank' has 64")));
  EXPECT_EQ(error("lora.alpha=2"), "") << "the plugins do not differ in this option";
}

TEST_F(OverridesTest, MistakesAreNamedWithTheNearestKey) {
  EXPECT_THAT(error("train.stesp=4"),
              AllOf(HasSubstr("--set train.stesp=4"), HasSubstr("did you mean 'steps'?")));
  EXPECT_THAT(error("trian.steps=4"), HasSubstr("did you mean 'train'?"));
  EXPECT_THAT(error("ruonds=4"), testing::is_error("--set ruonds=4", "'rounds'"));
  EXPECT_THAT(error("model.n_layer=4"), testing::is_error("--set model.n_layer=4", "'n_layers'"));
  EXPECT_THAT(error("train.steps=many"), HasSubstr("train.steps must be"));
  EXPECT_THAT(error("rounds=0"), HasSubstr("rounds"));
  EXPECT_THAT(error("device=gpu"), HasSubstr("'cuda'"));
  EXPECT_THAT(error("train.steps"), HasSubstr("key=value"));
  EXPECT_THAT(error("=4"), HasSubstr("key=value"));
  EXPECT_THAT(error("plugins=[]"), testing::is_error("--set plugins=[]", "'plugins'"));
  EXPECT_THAT(error("name=y"), testing::is_error("--set name=y", "'name'"));
}
}  // namespace
}  // namespace optrush
