// The rank that explains a failed run, and the end of all its processes.
#include "launch/ranks/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "base/files.h"
#include "base/temporary_folder.h"

namespace optrush {
namespace {
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

/// A fake rank. It ends after a time, by SIGKILL, or by SIGTERM if it handles it.
class ScriptedRank : public RunningRank {
 public:
  struct Script {
    std::optional<milliseconds> after;  ///< none: only by a signal
    RankEnd end;
    bool listens = true;  ///< to SIGTERM
    bool answers = true;  ///< when it has ended
    int64_t steps = 0;
  };
  ScriptedRank(int64_t rank, Script script) : RunningRank(rank_name(rank, "h")), script_(std::move(script)) {}

  std::optional<RankEnd> poll() override {
    if (reported_ || !script_.answers) return std::nullopt;
    RankEnd end = script_.end;
    end.state.steps = script_.steps;
    if (killed_ != 0)
      end = {.end = {.kind = ProcessEnd::Kind::signalled, .signal = killed_},
             .problem = "wrote no result",
             .state = end.state};
    else if (!script_.after || Clock::now() - start_ < *script_.after)
      return std::nullopt;
    reported_ = true;
    return end;
  }
  void terminate() override {
    if (script_.listens) killed_ = SIGTERM;
  }
  void kill() override { killed_ = SIGKILL; }
  bool has_ended() const { return reported_; }

 private:
  Script script_;
  Clock::time_point start_ = Clock::now();
  int killed_ = 0;
  bool reported_ = false;
};
using Script = ScriptedRank::Script;

RankEnd ended(const std::string& status, const std::string& cause = {}) {
  Json result = {
      {"schema_version", 1}, {"status", status}, {"reason", status == "ok" ? "" : "why " + status}};
  if (!cause.empty()) result["cause"] = cause;
  return {.result = run_result_from_json(result, "a rank")};
}
RankEnd died(int signal) {
  return {.end = {.kind = ProcessEnd::Kind::signalled, .signal = signal},
          .problem = "wrote no result",
          .log = "its log"};
}

class Ranks : public ::testing::Test {
 protected:
  static constexpr RankLimits kLimits{.timeout_s = 5,
                                      .linger_s = 0.3,
                                      .settle_s = 0.2,
                                      .outside_s = 0.3,
                                      .own_s = 0.1,
                                      .grace_s = 0.2,
                                      .gone_s = 0.2};

  RanksEnd watch(std::vector<Script> scripts, const RankLimits& limits = kLimits) {
    std::vector<std::unique_ptr<RunningRank>> ranks;
    for (auto& script : scripts)
      ranks.push_back(std::make_unique<ScriptedRank>(static_cast<int64_t>(ranks.size()), std::move(script)));
    auto end = watch_ranks(ranks, limits);
    EXPECT_EQ(end.ends.size(), scripts.size());
    return end;
  }
  RanksEnd watch_ranks(std::vector<std::unique_ptr<RunningRank>>& ranks, const RankLimits& limits) {
    RankWatch watch(ranks, limits, interrupts_);
    const auto start = Clock::now();
    while (watch.goes_on()) {
      if (interrupts_.signal() != 0) return watch.end(RanksEnd::Kind::interrupted);
      if (std::chrono::duration<double>(Clock::now() - start).count() >= limits.timeout_s)
        return watch.end(RanksEnd::Kind::timed_out);
      interrupts_.wait(milliseconds(5));
    }
    return watch.end();
  }
  Json concluded(const RanksEnd& end) {
    Job job{.id = "run", .spec = {}};
    job.spec.train.world_size = static_cast<int64_t>(end.ends.size());
    job.spec.train.steps = 10;
    job.spec.train.warmup = 3;
    return to_json(conclude_ranks(folder_.path(), end, job, kLimits));
  }

  /// As watch(), with a SIGTERM to this process after some time.
  RanksEnd::Kind signalled(std::vector<Script> scripts, milliseconds after,
                           const RankLimits& limits = kLimits) {
    const Interrupts held;  // the signalling thread survives
    std::jthread sender([after] {
      std::this_thread::sleep_for(after);
      kill(getpid(), SIGTERM);
    });
    Interrupts interrupts;
    std::vector<std::unique_ptr<RunningRank>> ranks;
    for (auto& script : scripts)
      ranks.push_back(std::make_unique<ScriptedRank>(static_cast<int64_t>(ranks.size()), std::move(script)));
    RankWatch watch(ranks, limits, interrupts);
    RanksEnd::Kind kind = RanksEnd::Kind::ok;
    while (interrupts.signal() == 0 && watch.goes_on()) interrupts.wait(milliseconds(5));
    if (interrupts.signal() != 0) kind = RanksEnd::Kind::interrupted;
    last_ = watch.end(kind);
    sender.join();
    interrupts.poll();
    return last_.kind;
  }

  RanksEnd last_;
  Interrupts interrupts_;
  const TemporaryFolder folder_;
};

TEST_F(Ranks, SuccessfulRunHasTheResultOfRank0) {
  RankEnd first = ended("ok");
  first.result->tokens_per_second = 7;
  const auto end = watch({{milliseconds(30), first}, {milliseconds(0), ended("ok")}});
  EXPECT_EQ(end.kind, RanksEnd::Kind::ok);
  EXPECT_EQ(concluded(end), to_json(*first.result));
}

TEST_F(Ranks, ABadEndAfterAGoodResultIsANote) {
  RankEnd crashed = ended("ok");
  crashed.end = died(SIGSEGV).end;
  const Json result = concluded(watch({{milliseconds(0), ended("ok")}, {milliseconds(0), crashed}}));
  EXPECT_EQ(result.at("status"), "ok");
  EXPECT_THAT(result.at("notes").at(0), HasSubstr("rank 1 (host h) failed: ended by SIGSEGV"));
}

TEST_F(Ranks, OwnFailureComesBeforePeers) {
  const auto end = watch({{milliseconds(0), ended("failed", "peer")},
                          {std::nullopt, {}},
                          {milliseconds(60), died(SIGKILL), true, true, 4}});
  EXPECT_EQ(end.kind, RanksEnd::Kind::failed);
  EXPECT_EQ(end.rank, 2);
  const Json result = concluded(end);
  EXPECT_EQ(result.at("status"), "oom") << "without a counter of the kernel";
  EXPECT_EQ(result.at("rank"), 2);
  EXPECT_THAT(
      result.at("reason").get<std::string>(),
      StartsWith("rank 2 (host h): killed, probably by the host's out-of-memory killer, after step 4 of 13"));
  EXPECT_THAT(result.at("reason"), HasSubstr("last lines of ranks/2/log.txt:\nits log"));
}

TEST_F(Ranks, FirstPeerIsNamedIfAllArePeers) {
  const auto end =
      watch({{milliseconds(50), ended("failed", "peer")}, {milliseconds(0), ended("failed", "peer")}});
  EXPECT_EQ(end.kind, RanksEnd::Kind::failed);
  EXPECT_EQ(end.rank, 1);
}

TEST_F(Ranks, ResultWithoutACauseIsAnOwnFailure) {
  const auto end = watch({{std::nullopt, {}}, {milliseconds(0), ended("skipped")}});
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(concluded(end).at("status"), "skipped");
  EXPECT_EQ(concluded(end).at("reason"), "rank 1 (host h): why skipped");
}

TEST_F(Ranks, RankThatHasNotEndedDidNotArrive) {
  Script hung{std::nullopt, {}};
  hung.listens = false;
  hung.steps = 4;
  const auto end = watch({{milliseconds(0), ended("timeout", "timeout")},
                          hung,
                          {milliseconds(120), ended("timeout", "timeout")},
                          // It reaches the collective after the others and waits like them.
                          {milliseconds(240), ended("timeout", "timeout")}});
  EXPECT_EQ(end.kind, RanksEnd::Kind::absent);
  EXPECT_EQ(end.rank, 1);
  const Json result = concluded(end);
  EXPECT_EQ(result.at("status"), "timeout");
  EXPECT_THAT(result.at("reason").get<std::string>(),
              StartsWith("rank 1 (host h): did not reach the collective in which the others waited (last "
                         "seen after step 4 of "
                         "13)\nrank 0 (host h): why timeout"));
}

TEST_F(Ranks, AbsentRankWithTheFewestStepsIsNamed) {
  const auto end = watch({{milliseconds(0), ended("timeout", "timeout")},
                          {std::nullopt, {}, true, true, 5},
                          {std::nullopt, {}, true, true, 4}});
  EXPECT_EQ(end.rank, 2);
}

TEST_F(Ranks, WaitingRankIsNamedIfNoneIsAbsent) {
  const auto end =
      watch({{milliseconds(0), ended("timeout", "timeout")}, {milliseconds(0), ended("timeout", "timeout")}});
  EXPECT_EQ(end.kind, RanksEnd::Kind::failed);
  EXPECT_EQ(concluded(end).at("status"), "timeout");
}

TEST_F(Ranks, TimeLimitAppliesToTheWholeRun) {
  RankLimits limits = kLimits;
  limits.timeout_s = 0.05;
  const auto end = watch({{std::nullopt, {}, true, true, 3}, {std::nullopt, {}, true, true, 2}}, limits);
  EXPECT_EQ(end.kind, RanksEnd::Kind::timed_out);
  EXPECT_EQ(end.rank, 1);
  EXPECT_THAT(concluded(end).at("reason").get<std::string>(),
              StartsWith("rank 1 (host h): did not end within"));
}

TEST_F(Ranks, RankThatOutlivesRank0IsATimeout) {
  const auto end = watch({{milliseconds(0), ended("ok")}, {std::nullopt, {}}});
  EXPECT_EQ(end.kind, RanksEnd::Kind::lingered);
  EXPECT_EQ(concluded(end).at("status"), "timeout");
  EXPECT_THAT(concluded(end).at("reason"), HasSubstr("after rank 0"));
  EXPECT_EQ(watch({{milliseconds(400), ended("ok")}, {milliseconds(0), ended("ok")}}).kind,
            RanksEnd::Kind::ok)
      << "rank 0 takes longer to end";
}

TEST_F(Ranks, ALateFailureReplacesAGoodResult) {
  const auto end = watch({{milliseconds(0), ended("ok")}, {milliseconds(50), died(SIGSEGV)}});
  EXPECT_EQ(concluded(end).at("status"), "crashed");
  EXPECT_EQ(concluded(end).at("rank"), 1);
}

TEST_F(Ranks, UnresponsiveRankIsGivenUp) {
  Script silent{std::nullopt, {}};
  silent.answers = false;
  const auto start = Clock::now();
  const auto end = watch({{milliseconds(0), ended("failed", "own")}, silent});
  EXPECT_EQ(end.rank, 0);
  EXPECT_FALSE(end.ends[1].lost.empty());
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(3));
}

TEST_F(Ranks, LostRankIsAFailure) {
  const auto end =
      watch({{std::nullopt, {}}, {milliseconds(0), RankEnd{.lost = "the connection to it was closed"}}});
  EXPECT_EQ(concluded(end).at("reason"),
            "rank 1 (host h): was lost: the connection to it was closed, last seen before its first message");
  EXPECT_EQ(concluded(end).at("cause"), "lost");
}

TEST_F(Ranks, LostRankIsReportedWithItsLastStepAndLog) {
  RankEnd lost{.log = "its last words", .lost = "the connection to it was closed"};
  const Json result = concluded(watch({{std::nullopt, {}}, {milliseconds(0), lost, true, true, 4}}));
  EXPECT_EQ(result.at("reason"),
            "rank 1 (host h): was lost: the connection to it was closed, last seen after step 4 of 13\n"
            "last lines of ranks/1/log.txt:\nits last words");
}

TEST_F(Ranks, OwnFailureComesBeforeAnExternalEnd) {
  const auto end = watch({{milliseconds(0), died(SIGTERM)}, {milliseconds(100), died(SIGSEGV)}});
  EXPECT_EQ(end.rank, 1);
  EXPECT_FALSE(concluded(end).contains("cause"));
}

/// A signal to a whole job reaches one rank before another. Whichever rank ends first, if the signal comes
/// within the grace period, the run counts as interrupted.
TEST_F(Ranks, ExternalEndNearASignalCountsAsInterrupted) {
  const RankEnd exited{.end = {.code = 128 + SIGTERM}, .problem = "wrote no result"};
  const RankEnd killed{
      .end = {.kind = ProcessEnd::Kind::signalled, .signal = SIGKILL, .out_of_memory = false},
      .problem = "wrote no result"};
  for (const RankEnd& outside : {died(SIGTERM), died(SIGUSR1), exited, killed, RankEnd{.lost = "closed"}})
    for (const Script& other :
         {Script{std::nullopt, {}}, Script{milliseconds(0), ended("failed", "peer")},
          Script{milliseconds(60), ended("timeout", "timeout")}, Script{milliseconds(60), died(SIGTERM)}}) {
      EXPECT_EQ(signalled({{milliseconds(0), outside}, other}, milliseconds(150)),
                RanksEnd::Kind::interrupted);
      EXPECT_EQ(signalled({other, {milliseconds(0), outside}}, milliseconds(0)), RanksEnd::Kind::interrupted);
      EXPECT_EQ(watch({{milliseconds(0), outside}, other}).kind, RanksEnd::Kind::failed) << "no signal comes";
    }
}

TEST_F(Ranks, OutOfMemoryIsAnOwnFailure) {
  RankEnd killed = died(SIGKILL);
  killed.end.out_of_memory = true;
  const Json result = concluded(watch({{std::nullopt, {}}, {milliseconds(0), killed}}));
  EXPECT_EQ(result.at("status"), "oom");
  EXPECT_THAT(result.at("reason").get<std::string>(),
              StartsWith("rank 1 (host h): killed by the kernel's out-of-memory killer"));
  EXPECT_FALSE(result.contains("cause"));
}

TEST_F(Ranks, RunThatSavesGetsTimeToFinish) {
  RankLimits limits = kLimits;
  limits.stop_grace_s = 3;
  Script saving{milliseconds(600), died(SIGTERM)};
  saving.listens = false;
  EXPECT_EQ(signalled({saving, saving}, milliseconds(0), limits), RanksEnd::Kind::interrupted);
  EXPECT_EQ(last_.ends[0].end.signal, SIGTERM);
  limits.stop_grace_s = 0.2;
  EXPECT_EQ(signalled({saving, saving}, milliseconds(0), limits), RanksEnd::Kind::interrupted);
  EXPECT_EQ(last_.ends[0].end.signal, SIGKILL) << "the grace period is shorter than the save";
}

TEST_F(Ranks, ASignalEndsAll) {
  std::vector<std::unique_ptr<RunningRank>> ranks;
  for (int64_t i = 0; i < 2; ++i)
    ranks.push_back(std::make_unique<ScriptedRank>(i, Script{std::nullopt, {}}));
  raise(SIGINT);
  const auto end = watch_ranks(ranks, kLimits);
  EXPECT_EQ(end.kind, RanksEnd::Kind::interrupted);
  for (const auto& rank : ranks) EXPECT_TRUE(dynamic_cast<const ScriptedRank&>(*rank).has_ended());
}
}  // namespace
}  // namespace optrush
