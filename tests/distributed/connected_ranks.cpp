#include "connected_ranks.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <numeric>
#include <thread>

#include "distributed/rendezvous.h"
#include "machine/environment.h"
#include "worker/device.h"

namespace optrush::testing {
std::string test_device() {
  const std::string named = environment_variable("OPTRUSH_TEST_DEVICE");
  return named.empty() ? "cpu" : named;
}

at::Device open_test_device(Ranks& ranks, const std::string& name) {
  const at::Device device = open_device(name, ranks.local_rank);
  ranks.gpu = gpu_identity(device);
  return device;
}

ConnectedRanks::ConnectedRanks(Ranks ranks, const std::string& identity, const std::string& name)
    : device(open_test_device(ranks, name)), store(rendezvous(ranks, identity)) {
  if (ranks_of_one_gpu(*store, ranks) > 1) let_ranks_share_a_gpu(ranks);
  groups.connect(ranks, store, device);
  std::vector<int64_t> all(static_cast<size_t>(ranks.size));
  std::iota(all.begin(), all.end(), 0);
  world = &groups.make("world", all, ranks.rank);
  wait_for_all(ranks.size);
}

/// A rank that leaves before the others are connected closes their connections. Rank 0 would end their store
/// as well.
void ConnectedRanks::wait_for_all(int64_t size) const {
  static std::vector<c10::intrusive_ptr<c10d::Store>> kept;
  kept.push_back(store);
  store->add("connected", 1);
  while (store->add("connected", 0) < size) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::vector<double> numbers(const Tensor& tensor) {
  const Tensor wide = tensor.to(at::kCPU, at::kDouble).contiguous();
  return {wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel()};
}

namespace {
/// Rank r holds numbers like r + 1.
Json collectives(const Ranks& ranks, const Json& arguments) {
  static const std::map<std::string, at::ScalarType> kTypes = {
      {"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp64", at::kDouble}, {"bytes", at::kByte}};
  ConnectedRanks connected(ranks, "test", arguments.at("device"));
  Group& world = *connected.world;
  const auto options = at::TensorOptions(kTypes.at(arguments.at("type"))).device(connected.device);
  const int64_t n = ranks.size;
  const double mine = static_cast<double>(ranks.rank + 1);
  Json result;
  const Tensor sum = at::full({3}, mine, options), most = at::full({3}, mine, options);
  world.all_reduce(sum).wait();
  world.all_reduce_max(most).wait();
  result["all_reduce"] = numbers(sum);
  result["max"] = numbers(most);
  const Tensor gathered = at::empty({2 * n}, options);
  world.all_gather(gathered, at::full({2}, mine, options)).wait();
  result["all_gather"] = numbers(gathered);
  const Tensor part = at::empty({2}, options);
  world.reduce_scatter(part, at::arange(2 * n, at::kFloat).mul_(mine).to(options)).wait();
  result["reduce_scatter"] = numbers(part);
  const Tensor swapped = at::empty({n}, options);
  world.all_to_all(swapped, at::arange(n, at::kFloat).add_(10 * mine).to(options)).wait();
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
  const int64_t next = (ranks.rank + 1) % n, before = (ranks.rank + n - 1) % n;
  const Tensor from_left = at::empty({2}, options), exchanged = at::empty({2}, options);
  WorkHandle sent = world.send(at::full({2}, mine, options), next);
  world.receive(from_left, before).wait();
  sent.wait();
  result["receive"] = numbers(from_left);
  for (const auto& [key, traffic] : connected.groups.traffic())
    result["traffic"][key.first] = {traffic.calls, traffic.bytes, traffic.sent, traffic.ranks};
  world.exchange(exchanged, before, at::full({2}, mine, options), next).wait();
  result["exchange"] = numbers(exchanged);
  return result;
}
}  // namespace

void expect_every_collective(RankPool& pool, int64_t n, const std::string& type, const std::string& device) {
  const auto answers = pool.run("collectives", n, {{"type", type}, {"device", device}});
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
    EXPECT_EQ(got["exchange"], Json({left, left}));
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

const bool kCollectiveJobs = add_jobs({{"collectives", collectives}});
}  // namespace optrush::testing
