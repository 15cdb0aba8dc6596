// Collectives of the ranks of a mesh: values, counted bytes, and errors when a rank is missing.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/peer_error.h"
#include "connected_ranks.h"
#include "distributed/rendezvous.h"
#include "optrush/mesh.h"
#include "rank_pool.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

/// Rank 1 leaves, or comes too late.
Json await_absent_peer(const Ranks& given, const Json& arguments) {
  Ranks ranks = given;
  ranks.timeout = std::chrono::seconds(2);
  ConnectedRanks connected(ranks);
  connected.world->all_reduce(at::ones({4})).wait();  // both are connected
  if (ranks.rank == 1) {
    if (arguments == "late") std::this_thread::sleep_for(std::chrono::seconds(5));
    return {};
  }
  try {
    connected.world->all_reduce(at::ones({4})).wait();
    return "no error";
  } catch (const PeerError& e) {
    return {{"late", e.cause() == PeerError::Cause::late}, {"what", e.what()}};
  }
}

Json meeting(const Ranks& given, const Json& arguments) {
  Ranks ranks = given;
  ranks.timeout = std::chrono::seconds(arguments == "missing" ? 5 : 60);  // the missing rank must time out
  if (ranks.rank == 2 && arguments == "missing") return "stays away";
  ConnectedRanks connected(ranks, ranks.rank == 2 && arguments == "other" ? "another script" : "this script");
  return "met";
}

/// Ranks with the GPUs `gpus`, in their order.
Json with_gpus(const Ranks& given, const Json& gpus) {
  Ranks ranks = given;
  ranks.gpu = gpus.at(static_cast<size_t>(ranks.rank)).get<std::string>();
  const ConnectedRanks connected(given);
  try {
    return std::to_string(ranks_of_one_gpu(*connected.store, ranks));
  } catch (const Skip& e) {
    return e.what();
  }
}

Json taken_port(const Ranks& ranks, const Json& port) {
  Ranks there = ranks;
  there.meet_at("127.0.0.1:" + std::to_string(port.get<int>()));
  rendezvous(there, "test");
  return "met";
}

TEST(Groups, EveryCollectiveGivesTheRightResult) {
  for (const char* type : {"fp32", "bf16", "fp64", "bytes"})
    for (const int64_t n : {2, 3, 4}) expect_every_collective(pool(), n, type, test_device());
}

TEST(Groups, SentBytesAreCountedByTheSender) {
  const double n = 4;
  const Json traffic =
      pool().run("collectives", 4, {{"type", "fp32"}, {"device", "cpu"}}).at(2).at("traffic");
  EXPECT_EQ(traffic["all_reduce"], Json({2, 2 * 12.0, 2 * 12.0 * 2 * (n - 1) / n, 4}));
  EXPECT_EQ(traffic["all_gather"], Json({1, 32.0, 32.0 * (n - 1) / n, 4}));
  EXPECT_EQ(traffic["reduce_scatter"], Json({1, 32.0, 32.0 * (n - 1) / n, 4}));
  EXPECT_EQ(traffic["all_to_all"], Json({3, 16.0 + 48.0, 16.0 * (n - 1) / n + 48.0, 4}));
  EXPECT_EQ(traffic["send"], Json({1, 8.0, 8.0, 4}));
  EXPECT_EQ(traffic["receive"], Json({1, 8.0, 0.0, 4}));
}

TEST(Groups, LateRankIsNamed) {
  const Json got = pool().run("await_absent_peer", 2, "late").front();
  EXPECT_TRUE(got["late"]) << got;
  EXPECT_THAT(got["what"].get<std::string>(), HasSubstr("all_reduce of 16 bytes in group 'world'"));
}

TEST(Groups, LostRankIsNotReportedAsLate) {
  const Json got = pool().run("await_absent_peer", 2, "lost").front();
  EXPECT_FALSE(got.at("late")) << got;
  EXPECT_THAT(got["what"].get<std::string>(), HasSubstr("lost a rank"));
}

TEST(Rendezvous, NamesTheMissingRank) {
  const auto answers = pool().run("meeting", 3, "missing");
  EXPECT_THAT(answers[0]["error"].get<std::string>(), HasSubstr("rank 2 of 3 did not join within 5 s"));
  EXPECT_THAT(answers[1]["error"].get<std::string>(), HasSubstr("rank 2 of 3 did not join"));
}

TEST(Rendezvous, NamesTheRankWithAnotherScript) {
  const auto answers = pool().run("meeting", 3, "other");
  for (const Json& answer : answers) {
    EXPECT_THAT(answer["error"].get<std::string>(), HasSubstr("rank 2 (another script)"));
    EXPECT_THAT(answer["error"].get<std::string>(), HasSubstr("this script"));
  }
}

TEST(Rendezvous, TwoRanksOnOneGpuAreRefused) {
  EXPECT_EQ(pool().run("with_gpus", 3, {"host gpu-0", "host gpu-1", "other gpu-0"}).front(), "1");
  EXPECT_EQ(pool().run("with_gpus", 3, {"", "", ""}).front(), "1") << "ranks may share a CPU";
  const auto refusal =
      pool().run("with_gpus", 3, {"host gpu-0", "host gpu-1", "host gpu-1"}).front().get<std::string>();
  EXPECT_THAT(refusal, HasSubstr("rank 1 and rank 2 use the same GPU (host gpu-1)"));
  EXPECT_THAT(refusal, HasSubstr("OPTRUSH_SHARE_GPU=1"));
}

TEST(Rendezvous, RanksMayShareAGpu) {
  ::setenv("OPTRUSH_SHARE_GPU", "1", 1);
  RankPool sharing;  // with this variable
  const auto most = sharing.run("with_gpus", 3, {"host gpu-1", "host gpu-0", "host gpu-1"});
  EXPECT_THAT(most, ::testing::Each(Json("2"))) << "every rank knows it";
}

TEST(Rendezvous, TakenPortIsReported) {
  Ranks holder{.rank = 0, .size = 1};
  holder.meet_at("127.0.0.1:" + std::to_string(free_port()));
  const auto held = rendezvous(holder, "test");
  const Json got = pool().run("taken_port", 1, holder.port).front();
  EXPECT_THAT(got.value("error", "none"), HasSubstr("port " + std::to_string(holder.port) + " is in use"));
  EXPECT_THAT(got.value("error", "none"), HasSubstr("EADDRINUSE"))
      << "the controller recognizes the error by this word";
}

const bool kGroupJobs = add_jobs({{"await_absent_peer", await_absent_peer},
                                  {"meeting", meeting},
                                  {"with_gpus", with_gpus},
                                  {"taken_port", taken_port}});
}  // namespace
}  // namespace optrush::testing
