// A program as the base of an experiment: its flags are rungs, and its reports are checked at once.
#include <gmock/gmock.h>

#include "analysis/analysis.h"
#include "fixture.h"
#include "report/report.h"
#include "support/folders.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class ProgramBase : public testing::Launch {
 protected:
  static Rung flags(const std::string& name, std::vector<std::string> args,
                    Effect effect = Effect::rounding) {
    return {.name = name,
            .where = "program.lua:1",
            .program = {{.rung = name, .args = std::move(args), .effect = effect}}};
  }
  static Rung fault(const std::string& name) { return flags(name, {"--fault", name}); }
  static Experiment program(std::vector<Rung> rungs, int64_t rounds = 1) {
    Experiment e = experiment({}, rounds);
    e.base = merged(e.base, {{"model_kind", kProgramKind}}, "test");
    e.program = External{.command = {fs::path(testing::tests_folder()) / "unit/launch/fake_trainer.py"}};
    e.parts = {{.rungs = std::move(rungs)}};
    return e;
  }
  Analysis analysis() const { return analyze(load_report(report())); }
  std::string page() const {
    write_report(report());
    return read_file(report() / "report.md");
  }
};

TEST_F(ProgramBase, APlantedSlowdownIsFoundAndAnEqualRungIsNot) {
  EXPECT_TRUE(run(program({flags("same", {}), flags("slow", {"--slower", "1.03"})}, 5)).all_ok);
  const Analysis a = analysis();
  EXPECT_EQ(a.rows[1].group, "ladder");
  EXPECT_TRUE(a.rows[1].previous.differs.empty());
  EXPECT_NEAR(a.rows[1].previous.speed->value, 1, 0.01);
  EXPECT_FALSE(a.rows[1].previous.speed->claim()) << "an equal rung is neither faster nor slower";
  EXPECT_NEAR(a.rows[2].previous.speed->value, 1 / 1.03, 0.01);
  EXPECT_TRUE(a.rows[2].previous.speed->claim());
  EXPECT_TRUE(a.rows[1].checked && a.rows[2].checked) << "its losses are compared with the rung below";
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("fake_trainer.py"));
  EXPECT_THAT(text, HasSubstr("+ --slower 1.03"));
  for (const char* absent : {"MFU", "llama", "parameters"}) EXPECT_THAT(text, Not(HasSubstr(absent)));
}

TEST_F(ProgramBase, FlagsAreStacked) {
  EXPECT_TRUE(run(program({flags("one", {"--slower", "2"}), flags("two", {"--loss", "0"})})).all_ok);
  const Json stored = read_json(report() / "runs/02-two-r1/external.json");
  EXPECT_EQ(full_command(fields_of<External>().read(stored, "test")).size(), 5U);
  EXPECT_NEAR(analysis().rows[2].base.speed->value, 0.5, 0.01);
}

TEST_F(ProgramBase, TheGateComparesByTheEffectOfEachRung) {
  Experiment e =
      program({flags("rounding", {"--loss", "0.5"}), flags("model", {"--loss", "0.5"}, Effect::model),
               flags("above", {"--slower", "1.1"})});
  e.parts[0].rungs[1].over = "base";
  run(e);
  const Analysis a = analysis();
  EXPECT_EQ(a.rows[1].status, Status::broken);
  EXPECT_TRUE(a.rows[2].ok()) << a.rows[2].reason;
  EXPECT_TRUE(a.rows[3].ok()) << a.rows[3].reason;
}

TEST_F(ProgramBase, AnAblationLeavesOutFlags) {
  Experiment e = program({flags("slow", {"--slower", "1.5"}), flags("plain", {})}, 3);
  e.parts[0].arrangement = Arrangement::ablation;
  EXPECT_TRUE(run(e).all_ok);
  const Analysis a = analysis();
  const auto line = std::ranges::find(a.ablation, "slow", &AblationLine::rung);
  ASSERT_NE(line, a.ablation.end());
  EXPECT_NEAR(line->in_stack->value, 1 / 1.5, 0.01);
}

TEST_F(ProgramBase, AGridCombinesFlags) {
  Experiment e = program({}, 3);
  e.parts = {{.arrangement = Arrangement::grid,
              .axes = {{flags("fast", {}), flags("slow", {"--slower", "1.5"})},
                       {flags("plain", {}), flags("slower", {"--slower", "3"})}}}};
  EXPECT_TRUE(run(e).all_ok);
  const Analysis a = analysis();
  EXPECT_NEAR(a.rows.back().base.speed->value, 1.0 / 3, 0.01) << "the last flag counts";
}

TEST_F(ProgramBase, RoundsEndWhenTheIntervalsAreNarrow) {
  Experiment e = program({flags("same", {}), flags("slow", {"--slower", "1.25"})});
  e.until = Until{.within = 0.03, .at_most_s = 600};
  EXPECT_TRUE(run(e).all_ok);
  const Analysis a = analysis();
  EXPECT_LE(a.rows[2].samples.size(), 8U) << "few rounds are enough at a noise of 0.2 %";
  EXPECT_TRUE(a.rows[2].base.speed->claim());
}

TEST_F(ProgramBase, LossesAreOptional) {
  EXPECT_TRUE(run(program({fault("lossless")}, 3)).all_ok);
  const Analysis a = analysis();
  EXPECT_TRUE(a.rows[1].ok() && !a.rows[1].checked);
  EXPECT_TRUE(a.rows[1].base.speed.has_value());
  page();
}

TEST_F(ProgramBase, EachMistakeEndsItsRunWithTheCure) {
  Experiment e = program({fault("no tokens"), fault("silent"), fault("nan"), fault("nan from the start"),
                          fault("contradiction"), flags("other batch", {"--tokens", "64"}), fault("bare")});
  for (Rung& rung : e.parts[0].rungs) rung.over = "base";
  EXPECT_FALSE(run(e).all_ok);
  EXPECT_EQ(status("01-no-tokens-r1"), "failed") << "at the first message: the program would sleep";
  EXPECT_THAT(reason("01-no-tokens-r1"), HasSubstr("field 'tokens' is missing in a step: {"));
  EXPECT_THAT(reason("01-no-tokens-r1"), HasSubstr("loss, grad_norm and phases are optional"));
  EXPECT_EQ(status("02-silent-r1"), "crashed");
  EXPECT_THAT(reason("02-silent-r1"),
              HasSubstr("wrote no result, before its first message\n  hint: loop over steps()"));
  EXPECT_EQ(status("04-nan-from-the-start-r1"), "failed");
  EXPECT_EQ(status("05-contradiction-r1"), "failed");
  EXPECT_THAT(reason("05-contradiction-r1"), HasSubstr("its tokens_per_second is 1,000,000, but"));
  EXPECT_THAT(reason("07-bare-r1"), HasSubstr("it has NaN or Infinity, which JSON lacks; write null: {"));
  const Analysis a = analysis();
  EXPECT_EQ(a.rows[3].status, Status::failed);
  EXPECT_THAT(a.rows[3].reason, HasSubstr("the loss is not finite at step 4"));
  EXPECT_EQ(a.rows[6].status, Status::failed);
  EXPECT_THAT(a.rows[6].reason,
              HasSubstr("its steps have 64 tokens, but the steps of 'base' have 128\nif the rung"));
}

TEST_F(ProgramBase, AProgramThatKeepsItsTurnEndsAlone) {
  Experiment e = program({fault("keeps its turn"), flags("other", {})});
  e.interleave = Interleave::on;
  e.program->interleave = true;
  e.parts[0].rungs[0].settings = {{"timeout_s", 2}};
  e.parts[0].rungs[1].over = "base";  // with the usual limit
  EXPECT_FALSE(run(e).all_ok);
  EXPECT_EQ(status("01-keeps-its-turn-r1"), "timeout");
  EXPECT_THAT(reason("01-keeps-its-turn-r1"), HasSubstr("it kept its turn: before each step"));
  EXPECT_EQ(status("02-other-r1"), "ok");
}

TEST_F(ProgramBase, OtherFlagsAreAnotherRun) {
  Experiment e = program({flags("one", {}), flags("two", {})}, 2);
  run(e);
  EXPECT_EQ(run(e, resuming()).signal, 0);
  EXPECT_EQ(events("started").size(), 7U) << "three rungs in two rounds, and the last run of the base";
  e.parts[0].rungs[1].program[0].args = {"--slower", "1.2"};
  run(e, resuming());
  EXPECT_EQ(events("started").size(), 9U);
}

TEST_F(ProgramBase, AProgramStartsItsRanks) {
  Experiment e = program({}, 3);
  e.program->command.insert(e.program->command.end(), {"--ranks", "{world_size}"});
  e.parts[0].rungs = {
      {.name = "two", .settings = {{"train", {{"world_size", 2}}}}, .where = "program.lua:1"}};
  EXPECT_TRUE(run(e).all_ok);
  const Analysis a = analysis();
  EXPECT_EQ(a.rows[1].devices, 2);
  EXPECT_THAT(a.rows[1].base.differs, HasSubstr("sequences per step"));
}

TEST_F(ProgramBase, BesideAnotherProgramAndOurModel) {
  Experiment e = experiment({"a"}, 3);
  Rung other{.name = "other", .where = "program.lua:1"};
  other.external = program({}).program;
  e.parts[0].rungs.push_back(other);
  e.parts[0].rungs.push_back(flags("other, slower", {"--slower", "1.2"}));
  Rung third = other;
  third.name = "third";
  third.over = "other";
  e.parts[0].rungs.push_back(third);
  EXPECT_TRUE(run(e).all_ok);
  const Analysis a = analysis();
  EXPECT_EQ(a.rows[3].group, "external");
  EXPECT_EQ(a.rows[3].previous.name, "other") << "the last program";
  EXPECT_NEAR(a.rows[3].previous.speed->value, 1 / 1.2, 0.02);
  EXPECT_EQ(a.rows[4].previous.name, "other") << "the stated one";
}
}  // namespace
}  // namespace optrush
