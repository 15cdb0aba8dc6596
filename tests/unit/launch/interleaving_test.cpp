// Interleaved runs of a fake worker: the order of turns, and runs that end badly.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>

#include "fixture.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Interleaving : public testing::Launch {
 protected:
  Interleaving() { setenv("FAKE_WORKER_TURNS", turns_file_.c_str(), 1); }
  ~Interleaving() override {
    unsetenv("FAKE_WORKER_TURNS");
    unsetenv("FAKE_STEP_SECONDS");
  }
  /// Four timed steps. The fake worker reports one second for each, so a turn is one step.
  static Experiment interleaved(const std::vector<std::string>& rungs, int64_t rounds = 1) {
    Experiment e = experiment(rungs, rounds);
    e.base.train.steps = 4;
    e.interleave = Interleave::on;
    return e;
  }
  RunOutcome run(const Experiment& e) { return run(e, request()); }
  RunOutcome run(const Experiment& e, const RunRequest& r) {
    fs::remove(turns_file_);
    return Launch::run(e, r);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream text(read_file(turns_file_));
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }
  /// The turns in order. "base 1" is a turn of the base with one step.
  std::vector<std::string> turns() const {
    std::vector<std::string> all;
    for (const auto& line : lines())
      if (const size_t has = line.find(" has "); has != std::string::npos)
        all.push_back(line.substr(0, has) + line.substr(has + 4));
    return all;
  }
  std::string group(const std::string& id) const { return result(id).value("turns", ""); }

  const fs::path turns_file_ = folder_ / "turns";
};

TEST_F(Interleaving, TheOrderRotates) {
  EXPECT_TRUE(run(interleaved({"a", "b"})).all_ok);
  EXPECT_THAT(turns(), ElementsAre("base 1", "a 1", "b 1",  //
                                   "a 1", "b 1", "base 1",  //
                                   "b 1", "base 1", "a 1",  //
                                   "base 1", "a 1", "b 1"));
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1", "02-b-r1"));
}

TEST_F(Interleaving, UnpredictedRunsJoinInTheSecondRound) {
  setenv("FAKE_MEMORY", "8e9", 1);
  Experiment e = interleaved({"a", "unpredicted"}, 3);
  e.interleave = Interleave::automatic;
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_EQ(group("02-unpredicted-r1"), "");
  EXPECT_NE(group("01-a-r1"), "");
  for (const std::string round : {"r2", "r3"}) {
    EXPECT_NE(group("02-unpredicted-" + round), "");
    EXPECT_EQ(group("02-unpredicted-" + round), group("00-base-" + round));
  }
  // --resume chooses the same runs from the stored results.
  const std::string before = group("02-unpredicted-r2");
  fs::remove_all(report() / "runs/00-base-r3");
  EXPECT_TRUE(run(e, resuming()).all_ok);
  EXPECT_EQ(group("02-unpredicted-r2"), before);
  EXPECT_EQ(group("02-unpredicted-r3"), group("00-base-r3"));
  unsetenv("FAKE_MEMORY");
}

TEST_F(Interleaving, OnlyOneRunWorksAtATime) {
  run(interleaved({"turnslow", "b"}));
  std::string working;
  for (const auto& line : lines()) {
    const std::string name = line.substr(0, line.find(' ')), what = line.substr(name.size() + 1);
    if (what == "waits") {
      EXPECT_EQ(working, name) << line;
      working.clear();
    } else {
      // A run ends with its last turn.
      EXPECT_TRUE(working.empty() || what == "has 1") << line << ", while " << working << " works";
      working = name;
    }
  }
}

TEST_F(Interleaving, TurnsHaveSeveralShortSteps) {
  setenv("FAKE_STEP_SECONDS", "0.1", 1);
  auto e = interleaved({"a"});
  e.base.train.steps = 14;
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_THAT(turns(), ElementsAre("base 3", "a 3", "a 3", "base 3", "base 3", "a 3", "a 3", "base 3",
                                   "base 2", "a 2"))
      << "the last turn has the remaining steps";
}

TEST_F(Interleaving, AGroupOfARoundHasAName) {
  EXPECT_TRUE(run(interleaved({"a"}, 2)).all_ok);
  EXPECT_THAT(group("00-base-r1"), HasSubstr("r1-"));
  EXPECT_EQ(group("00-base-r1"), group("01-a-r1"));
  EXPECT_EQ(group("00-base-r2"), group("01-a-r2"));
  EXPECT_NE(group("00-base-r1"), group("00-base-r2"));
}

TEST_F(Interleaving, OtherRunsContinueAfterACrash) {
  EXPECT_FALSE(run(interleaved({"turncrash", "b"}, 2)).all_ok);
  EXPECT_EQ(status("01-turncrash-r1"), "crashed");
  EXPECT_THAT(reason("01-turncrash-r1"), HasSubstr("SIGSEGV"));
  EXPECT_EQ(status("01-turncrash-r2"), "skipped");
  EXPECT_EQ(group("00-base-r1"), group("02-b-r1"));
  EXPECT_NE(group("00-base-r1"), "");
  const auto all = turns();
  EXPECT_THAT(std::vector(all.begin(), all.begin() + 11),
              ElementsAre("base 1", "turncrash 1", "b 1", "turncrash 1", "b 1", "base 1", "base 1", "b 1",
                          "b 1", "base 1", "b 1"))
      << "round 2 starts in the reverse order";
}

TEST_F(Interleaving, AHangIsATimeout) {
  auto e = interleaved({"turnhang", "b"});
  e.parts[0].rungs[0].settings = {{"timeout_s", 1.5}};
  EXPECT_FALSE(run(e).all_ok);
  EXPECT_EQ(status("01-turnhang-r1"), "timeout");
  EXPECT_THAT(reason("01-turnhang-r1"), HasSubstr("did not end within 1.5 s"));
  EXPECT_EQ(status("02-b-r1"), "ok");
}

TEST_F(Interleaving, WaitingDoesNotCountTowardsTheTimeLimit) {
  // Each run has three turns of 0.4 s. Its own turns fit into the time limit, all turns together do not.
  auto e = interleaved({"turnslow 1", "turnslow 2", "turnslow 3", "turnslow 4", "turnslow 5", "turnslow 6"});
  e.base.timeout_s = 6;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
}

TEST_F(Interleaving, RunsWithInvalidMessagesFail) {
  EXPECT_FALSE(run(interleaved({"turnjunk", "turntwice", "good"})).all_ok);
  EXPECT_EQ(status("01-turnjunk-r1"), "failed");
  EXPECT_THAT(reason("01-turnjunk-r1"), HasSubstr("not valid JSON"));
  EXPECT_EQ(status("02-turntwice-r1"), "failed");
  EXPECT_THAT(reason("02-turntwice-r1"),
              AllOf(HasSubstr("without having been asked"), HasSubstr("its message: {")));
  EXPECT_EQ(status("03-good-r1"), "ok");
}

TEST_F(Interleaving, OutOfMemoryInAGroupIsRetriedAlone) {
  EXPECT_TRUE(run(interleaved({"turnoom", "b"}, 2)).all_ok);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-turnoom-r1", "02-b-r1", "01-turnoom-r1", "02-b-r2",
                                    "00-base-r2", "01-turnoom-r2"))
      << "it runs alone in later rounds";
  EXPECT_EQ(group("01-turnoom-r1"), "");
  EXPECT_EQ(group("00-base-r1"), group("02-b-r1"));
}

TEST_F(Interleaving, OutOfMemoryAloneIsFinal) {
  EXPECT_FALSE(run(interleaved({"oom", "b"})).all_ok);
  EXPECT_EQ(status("01-oom-r1"), "oom");
  EXPECT_EQ(std::ranges::count(starts(), "01-oom-r1"), 2);
}

TEST_F(Interleaving, RunsWithoutSupportRunAlone) {
  EXPECT_TRUE(run(interleaved({"silent", "b"})).all_ok);
  EXPECT_EQ(group("01-silent-r1"), "");
  EXPECT_THAT(turns(), Each(Not(HasSubstr("silent"))));
}

TEST_F(Interleaving, ASignalEndsAll) {
  const auto outcome = run(interleaved({"turnsignal", "b"}));
  EXPECT_EQ(outcome.signal, SIGINT);
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-r1/result.json"));
  EXPECT_FALSE(fs::exists(report() / "runs/02-b-r1/result.json"));
}

TEST_F(Interleaving, SignalShortensARoundToTheStepsOfAllRuns) {
  Experiment e = interleaved({"turnstop", "b"}, 3);
  e.base.train.steps = 10;
  EXPECT_EQ(run(e).signal, SIGINT);
  for (const char* id : {"00-base-r1", "01-turnstop-r1", "02-b-r1"}) {
    EXPECT_EQ(status(id), "ok") << id;
    EXPECT_EQ(result(id).value("cut", ""), "interrupt") << id;
    EXPECT_EQ(group(id), group("00-base-r1"));
    const auto steps = result(id).at("steps").size();  // with three of warm-up
    EXPECT_THAT(steps, ::testing::AllOf(::testing::Ge(3 + 4U), ::testing::Le(3 + 5U))) << id;
  }
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-r2/result.json"));
  const auto again = run(e, resuming());
  EXPECT_THAT(starts(), Not(Contains(HasSubstr("-r1")))) << "complete rounds are kept";
  EXPECT_THAT(starts(), Contains("02-b-r2"));
}

TEST_F(Interleaving, SignalDoesNotShortenRunsThatMustBeComplete) {
  Experiment e = interleaved({"turnstop", "b"}, 1);
  e.base.train.steps = 10;
  EXPECT_EQ(run(e).signal, SIGINT);
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-r1/result.json")) << "one round gives no claim";
  e = interleaved({"turnstop", "b"}, 3);
  e.base.train.steps = 10;
  e.target_loss = 1;
  EXPECT_EQ(run(e).signal, SIGINT);
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-r1/result.json")) << "the experiment has a target loss";
}

TEST_F(Interleaving, ResumeRepeatsIncompleteGroups) {
  const auto e = interleaved({"a", "turncrash"}, 2);
  run(e);
  const std::string first = group("00-base-r1"), second = group("00-base-r2");
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty());
  fs::remove(report() / "runs/01-a-r2/result.json");
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("01-a-r2", "00-base-r2")) << "the crashed run of round 1 is kept";
  EXPECT_EQ(group("00-base-r1"), first);
  EXPECT_NE(group("00-base-r2"), second);
  EXPECT_EQ(group("00-base-r2"), group("01-a-r2"));
  EXPECT_EQ(parse_json(read_file(report() / "replaced/00-base-r2/result.json"), "old").at("turns"), second)
      << "finished results are kept";
}

TEST_F(Interleaving, RanksOfARunShareItsTurn) {
  auto e = interleaved({"a"});
  e.parts[0].rungs[0].settings = {{"train", {{"world_size", 2}}}};
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_EQ(group("00-base-r1"), group("01-a-r1"));
  EXPECT_NE(group("01-a-r1"), "");
  auto all = turns();
  ASSERT_EQ(all.size(), 12);
  for (const size_t i : {1, 3, 7, 9}) {  // base, a, a, base, base, ...: both ranks between two of the base
    std::ranges::sort(all.begin() + static_cast<std::ptrdiff_t>(i),
                      all.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    EXPECT_EQ(all[i], "a/0 1") << i;
    EXPECT_EQ(all[i + 1], "a/1 1") << i;
  }
}

TEST_F(Interleaving, DeathOfOneRankEndsItsRun) {
  auto e = interleaved({"turncrash", "b"});
  e.parts[0].rungs[0].settings = {{"train", {{"world_size", 2}}}};
  EXPECT_FALSE(run(e).all_ok);
  EXPECT_EQ(status("01-turncrash-r1"), "crashed");
  EXPECT_EQ(status("02-b-r1"), "ok");
}

TEST_F(Interleaving, AnExternalProgramTakesPart) {
  auto e = interleaved({"a"});
  Rung other{.name = "other", .where = "fake.lua:2"};
  const std::string worker = testing::kFakeWorker;
  other.external =
      External{.command = {"sh", "-c", "exec " + worker + " run --spec {spec} --out $(dirname {out})"},
               .interleave = true};
  e.parts[0].rungs.push_back(other);
  run(e);
  EXPECT_THAT(turns(), Contains("other 1"));
  e.parts[0].rungs.back().external->interleave = false;
  run(e);
  EXPECT_THAT(turns(), Not(Contains("other 1")));
}
}  // namespace
}  // namespace optrush
