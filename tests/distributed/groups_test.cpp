// Collectives of the ranks of a mesh: values, counted bytes, and errors when a rank is missing.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/peer_error.h"
#include "distributed/groups.h"
#include "distributed/rendezvous.h"
#include "optrush/mesh.h"
#include "rank_pool.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

std::vector<int64_t> all_ranks(int64_t size) {
  std::vector<int64_t> all(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) all[static_cast<size_t>(i)] = i;
  return all;
}

struct Connected {
  c10::intrusive_ptr<c10d::Store> store;
  Groups groups;
  Group* world;
  explicit Connected(const Ranks& ranks, const std::string& identity = "test")
      : store(rendezvous(ranks, identity)) {
    groups.connect(ranks, store, at::kCPU);
    world = &groups.make("world", all_ranks(ranks.size), ranks.rank);
    wait_for_all(ranks.size);
  }

  /// A rank that leaves before the others are connected closes their connections. Rank 0 would end their
  /// store as well.
  void wait_for_all(int64_t size) const {
    static std::vector<c10::intrusive_ptr<c10d::Store>> kept;
    kept.push_back(store);
    store->add("connected", 1);
    while (store->add("connected", 0) < size) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

std::vector<double> numbers(const Tensor& tensor) {
  const Tensor wide = tensor.to(at::kDouble).contiguous();
  return {wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel()};
}

/// Runs every collective once on tensors of a type. Rank r holds numbers like r + 1.
Json collectives(const Ranks& ranks, const Json& arguments) {
  Connected connected(ranks);
  Group& world = *connected.world;
  const auto type = arguments == "bf16" ? at::kBFloat16 : at::kFloat;
  const int64_t n = ranks.size;
  const double mine = static_cast<double>(ranks.rank + 1);
  const auto options = at::TensorOptions(type);
  Json result;
  const Tensor sum = at::full({3}, mine, options), most = at::full({3}, mine, options);
  world.all_reduce(sum).wait();
  world.all_reduce_max(most).wait();
  result["all_reduce"] = numbers(sum);
  result["max"] = numbers(most);
  const Tensor gathered = at::empty({2 * n}, options);
  world.all_gather(gathered, at::full({2}, mine, options)).wait();
  result["all_gather"] = numbers(gathered);
  const Tensor part = at::empty({2}, at::kFloat);
  world.reduce_scatter(part, at::arange(2 * n, at::kFloat).mul_(mine).to(type)).wait();
  result["reduce_scatter"] = numbers(part);
  const Tensor swapped = at::empty({n}, options);
  world.all_to_all(swapped, at::arange(n, at::kFloat).add_(10 * mine).to(type)).wait();
  result["all_to_all"] = numbers(swapped);
  // Rank r sends d rows of two numbers to rank r + d, so none to itself.
  std::vector<int64_t> to, from;
  Tensors rows;
  for (int64_t other = 0; other < n; ++other) {
    to.push_back((other + n - ranks.rank) % n);
    from.push_back((ranks.rank + n - other) % n);
    rows.push_back(at::full({to.back(), 2}, 10 * mine + static_cast<double>(other), options));
  }
  const Tensor unequal = at::empty({n * (n - 1) / 2, 2}, options);
  world.all_to_all(unequal, from, at::cat(rows), to).wait();
  result["unequal"] = numbers(unequal);
  // No rank sends rows.
  const Tensor nothing = at::empty({0, 2}, options);
  world.all_to_all(nothing, std::vector<int64_t>(to.size(), 0), nothing, std::vector<int64_t>(to.size(), 0))
      .wait();
  const Tensor told = at::full({2}, mine, options);
  world.broadcast(told, 1).wait();
  result["broadcast"] = numbers(told);
  const Tensor from_left = at::empty({2}, options);
  WorkHandle sent = world.send(at::full({2}, mine, options), (ranks.rank + 1) % n);
  world.receive(from_left, (ranks.rank + n - 1) % n).wait();
  sent.wait();
  result["receive"] = numbers(from_left);
  for (const auto& [key, traffic] : connected.groups.traffic())
    result["traffic"][key.first] = {traffic.calls, traffic.bytes, traffic.sent, traffic.ranks};
  return result;
}

/// Rank 1 leaves, or comes too late.
Json await_absent_peer(const Ranks& given, const Json& arguments) {
  Ranks ranks = given;
  ranks.timeout = std::chrono::seconds(2);
  Connected connected(ranks);
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
  Connected connected(ranks, ranks.rank == 2 && arguments == "other" ? "another script" : "this script");
  return "met";
}

/// Ranks with the GPUs `gpus`, in their order.
Json with_gpus(const Ranks& given, const Json& gpus) {
  Ranks ranks = given;
  ranks.gpu = gpus.at(static_cast<size_t>(ranks.rank)).get<std::string>();
  const Connected connected(given);
  try {
    refuse_shared_gpus(*connected.store, ranks);
  } catch (const Skip& e) {
    return e.what();
  }
  return "";
}

Json taken_port(const Ranks& ranks, const Json& port) {
  Ranks there = ranks;
  there.meet_at("127.0.0.1:" + std::to_string(port.get<int>()));
  rendezvous(there, "test");
  return "met";
}

TEST(Groups, EveryCollectiveGivesTheRightResult) {
  for (const char* type : {"fp32", "bf16"})
    for (const int64_t n : {2, 3, 4}) {
      const auto answers = pool().run("collectives", n, type);
      const double sum = static_cast<double>(n * (n + 1)) / 2;
      for (int64_t rank = 0; rank < n; ++rank) {
        const Json& got = answers[static_cast<size_t>(rank)];
        ASSERT_FALSE(got.contains("error")) << got;
        const auto r = static_cast<double>(rank);
        EXPECT_EQ(got["all_reduce"], Json({sum, sum, sum}));
        EXPECT_EQ(got["max"], Json({n, n, n}));
        EXPECT_EQ(got["reduce_scatter"], Json({2 * r * sum, (2 * r + 1) * sum}));
        EXPECT_EQ(got["broadcast"], Json({2, 2}));
        const auto left = static_cast<double>((rank + n - 1) % n + 1);
        EXPECT_EQ(got["receive"], Json({left, left}));
        Json unequal = Json::array();
        for (int64_t i = 0; i < n; ++i)
          for (int64_t k = 0; k < 2 * ((rank + n - i) % n); ++k) unequal.push_back(10 * (i + 1) + rank);
        EXPECT_EQ(got["unequal"], unequal);
        for (int64_t i = 0; i < n; ++i) {
          const auto j = static_cast<size_t>(i);
          EXPECT_EQ(got["all_gather"][2 * j], i + 1);
          EXPECT_EQ(got["all_to_all"][j], 10 * (i + 1) + rank);
        }
      }
    }
}

TEST(Groups, SentBytesAreCountedByTheSender) {
  const double n = 4;
  const Json traffic = pool().run("collectives", 4, "fp32").at(2).at("traffic");
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
  EXPECT_EQ(pool().run("with_gpus", 3, {"host gpu-0", "host gpu-1", "other gpu-0"}).front(), "");
  EXPECT_EQ(pool().run("with_gpus", 3, {"", "", ""}).front(), "") << "ranks may share a CPU";
  EXPECT_THAT(
      pool().run("with_gpus", 3, {"host gpu-0", "host gpu-1", "host gpu-1"}).front().get<std::string>(),
      HasSubstr("rank 1 and rank 2 use the same GPU (host gpu-1)"));
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

const bool kGroupJobs = add_jobs({{"collectives", collectives},
                                  {"await_absent_peer", await_absent_peer},
                                  {"meeting", meeting},
                                  {"with_gpus", with_gpus},
                                  {"taken_port", taken_port}});
}  // namespace
}  // namespace optrush::testing
