// Collectives of the ranks of a mesh: values, counted bytes, and errors when a rank is missing.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "base/peer_error.h"
#include "connected_ranks.h"
#include "distributed/backend.h"
#include "distributed/groups.h"
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

/// The error of a call that is wrong on every rank.
Json wrong_call(const Ranks& ranks, const Json& how) {
  ConnectedRanks connected(ranks);
  Group& world = *connected.world;
  const std::map<std::string, std::function<void()>> calls = {
      {"type", [&] { world.all_reduce(at::zeros({4}, at::kShort)).wait(); }},
      {"view",
       [&] {
         world.all_gather(at::zeros({2, 4}).t(), at::zeros({4})).wait();
       }},
      {"gaps",
       [&] {
         world.all_reduce(at::zeros({4, 2}).select(1, 0)).wait();
       }},
      {"size", [&] { world.all_gather(at::zeros({5}), at::zeros({4})).wait(); }},
      {"parts", [&] { world.all_to_all(at::zeros({3}, at::kByte), at::zeros({3}, at::kByte)).wait(); }},
      {"root", [&] { world.broadcast(at::zeros({3}), 7).wait(); }}};
  try {
    calls.at(how.get<std::string>())();
    return "no error";
  } catch (const PeerError& e) {
    return {{"peer", true}, {"what", e.what()}};
  } catch (const std::exception& e) {
    return {{"peer", false}, {"what", e.what()}};
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

TEST(Groups, WrongCallIsNoLostRank) {
  for (const char* how : {"type", "view", "gaps", "size", "parts", "root"})
    for (const Json& got : pool().run("wrong_call", 2, how)) {
      ASSERT_TRUE(got.is_object()) << how << ": " << got;
      EXPECT_FALSE(got.at("peer").get<bool>()) << how << ": " << got;
      EXPECT_THAT(got.at("what").get<std::string>(), ::testing::Not(HasSubstr("lost a rank"))) << how;
    }
}

/// Calls what throws. Returns "late", "gone", or the class of the error.
template <class Throw>
std::string kind_of(const Throw& error) {
  try {
    call_collective("all_reduce of 16 bytes in group 'dp'", [&] { error(); });
    return "no error";
  } catch (const PeerError& e) {
    EXPECT_THAT(e.what(), HasSubstr("all_reduce of 16 bytes in group 'dp'"));
    return e.cause() == PeerError::Cause::late ? "late" : "gone";
  } catch (const Error&) {
    return "error";
  } catch (const c10::OutOfMemoryError&) {
    return "c10 out of memory";
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("all_reduce of 16 bytes in group 'dp'"));
    return "c10";
  } catch (const std::bad_alloc&) {
    return "bad_alloc";
  }
}

TEST(Groups, ErrorsOfACollectiveKeepTheirClass) {
  EXPECT_EQ(kind_of([] {
              throw c10::OutOfMemoryError(c10::SourceLocation{"", "", 0}, "CUDA out of memory.");
            }),
            "c10 out of memory");
  EXPECT_EQ(kind_of([] {
              TORCH_CHECK(false,
                          "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.");
            }),
            "c10");
  EXPECT_EQ(kind_of([] { throw std::bad_alloc(); }), "bad_alloc");
  EXPECT_EQ(kind_of([] { throw Error("a plugin's own"); }), "error");
  EXPECT_EQ(kind_of([] { throw std::invalid_argument("ProcessGroupGloo::send: invalid tensor type"); }),
            "error");
  EXPECT_EQ(kind_of([] { throw std::system_error(ECONNRESET, std::generic_category()); }), "gone");
  EXPECT_EQ(kind_of([] { C10_THROW_ERROR(DistStoreError, "wait timeout after 1000ms"); }), "late");
  EXPECT_EQ(kind_of([] { C10_THROW_ERROR(DistNetworkError, "Connection reset by peer"); }), "gone");
  for (const auto& known : std::map<std::string, std::string>{
           {"NCCL error in: x.cpp:1, remote process exited or there was a network error\nncclRemoteError: A "
            "call "
            "failed possibly due to a network error or a remote process exiting prematurely.",
            "gone"},
           {"NCCL error in: x.cpp:1, unhandled system error\nncclSystemError: System call (e.g. socket, "
            "malloc)",
            "gone"},
           {"NCCL communicator was aborted on rank 1.", "gone"},
           {"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(...)", "late"},
           {"NCCL error in: x.cpp:1, invalid argument\nncclInvalidArgument: Invalid value for an argument.",
            "c10"},
           {"NCCL error in: x.cpp:1, invalid usage\nncclInvalidUsage: This usually reflects invalid usage of "
            "NCCL "
            "library.",
            "c10"},
           {"NCCL error in: x.cpp:1, unhandled cuda error\nncclUnhandledCudaError: Call to CUDA function "
            "failed.\n"
            "Last error:\nCuda failure 2 'out of memory'",
            "c10"}})
    EXPECT_EQ(kind_of([&] { C10_THROW_ERROR(DistBackendError, known.first); }), known.second) << known.first;
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
                                  {"wrong_call", wrong_call},
                                  {"meeting", meeting},
                                  {"with_gpus", with_gpus},
                                  {"taken_port", taken_port}});
}  // namespace
}  // namespace optrush::testing
