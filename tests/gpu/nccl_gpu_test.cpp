// Communication of GPUs by NCCL: opening the library of LibTorch, a group of one rank, and every collective
// with one rank per GPU, or with four ranks on one GPU (OPTRUSH_SHARE_GPU=1).
#include <ATen/Functions.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "connected_ranks.h"
#include "distributed/backend.h"
#include "distributed/rendezvous.h"
#include "machine/torch_folder.h"
#include "machine/visible_gpu.h"
#include "on_gpu.h"
#include "optrush/torch_versions/collectives.h"
#include "rank_pool.h"
#include "support/folders.h"
#include "worker/device.h"

namespace optrush::testing {
namespace {
/// Calls c10d directly, because a Group of one rank sends nothing.
Json alone(const Ranks& ranks, const Json&) {
  const at::Device device = open_device("cuda", ranks.local_rank);
  const auto group = make_process_group("alone", rendezvous(ranks, "test"), 0, 1, device, ranks);
  const auto options = at::TensorOptions(at::kFloat).device(device);
  Json result;
  std::vector<Tensor> sum = {at::full({3}, 2.0, options)};
  group->allreduce(sum)->wait();
  result["all_reduce"] = numbers(sum.front());
  Tensor gathered = at::zeros({4}, options), part = at::arange(4, options);
  gather_parts(*group, gathered, part)->wait();
  result["all_gather"] = numbers(gathered);
  Tensor scattered = at::zeros({4}, options);
  reduce_parts(*group, scattered, part)->wait();
  result["reduce_scatter"] = numbers(scattered);
  std::vector<Tensor> on_cpu = {at::full({2}, 3.0)};
  group->allreduce(on_cpu)->wait();
  result["on a CPU"] = numbers(on_cpu.front());
  return result;
}

/// A message goes round once and connects every pair. Then each rank first receives from the previous rank
/// and then sends. In a single stream, each rank would wait for the previous one forever.
Json ring(const Ranks& ranks, const Json&) {
  ConnectedRanks connected(ranks, "test", "cuda");
  Group& world = *connected.world;
  const int64_t n = ranks.size, next = (ranks.rank + 1) % n, before = (ranks.rank + n - 1) % n;
  const auto options = at::TensorOptions(at::kFloat).device(connected.device);
  const Tensor word = at::full({1}, 7.0, options);
  if (ranks.rank > 0) world.receive(word, before).wait();
  world.send(word, next).wait();
  if (ranks.rank == 0) world.receive(word, before).wait();
  const Tensor arrived = at::empty({2}, options);
  WorkHandle arrives = world.receive(arrived, before);
  WorkHandle leaves = world.send(at::full({2}, static_cast<double>(ranks.rank), options), next);
  arrives.wait();
  leaves.wait();
  return {{"word", numbers(word)}, {"arrived", numbers(arrived)}};
}

/// More ranks would add no coverage.
constexpr int64_t kMostRanks = 4;
int64_t ranks_here() {
  return ranks_may_share_a_gpu() ? kMostRanks
                                 : std::min<int64_t>(kMostRanks, at::detail::getCUDAHooks().deviceCount());
}

class NcclOnGpu : public OnGpu {};

TEST_F(NcclOnGpu, SingleRankGetsItsOwnData) {
  RankPool pool;
  const Json got = pool.run("alone", 1, {}).front();
  ASSERT_FALSE(got.contains("error")) << got;
  EXPECT_EQ(got["all_reduce"], Json({2, 2, 2}));
  EXPECT_EQ(got["all_gather"], Json({0, 1, 2, 3}));
  EXPECT_EQ(got["reduce_scatter"], Json({0, 1, 2, 3}));
  EXPECT_EQ(got["on a CPU"], Json({3, 3}));
}

TEST_F(NcclOnGpu, EveryCollectiveOfSeveralRanksGivesTheRightResult) {
  if (ranks_here() < 2) GTEST_SKIP() << "one GPU: set OPTRUSH_SHARE_GPU=1 for several ranks";
  RankPool pool;
  for (const char* type : {"fp32", "bf16", "fp64", "bytes"})
    for (int64_t n = 2; n <= ranks_here(); ++n) expect_every_collective(pool, n, type, "cuda");
}

TEST_F(NcclOnGpu, ReceivesDoNotDelayLaterSends) {
  const int64_t n = ranks_here();
  if (n < 3) GTEST_SKIP() << "fewer than three GPUs: set OPTRUSH_SHARE_GPU=1 for a ring";
  RankPool pool;
  const auto answers = pool.run("ring", n, {});
  for (int64_t rank = 0; rank < n; ++rank) {
    const Json& got = answers[static_cast<size_t>(rank)];
    ASSERT_FALSE(got.contains("error")) << got;
    const int64_t before = (rank + n - 1) % n;
    EXPECT_EQ(got["word"], Json({7}));
    EXPECT_EQ(got["arrived"], Json({before, before}));
  }
}

TEST(NcclLibrary, OpensAndExportsWhatTheCoreCalls) {
  const auto of_torch = torch_folder() / "lib" / "libtorch_cuda.so";
  if (!std::filesystem::exists(of_torch)) GTEST_SKIP() << "this LibTorch has no CUDA";
  // As load_cuda(), which requires a GPU.
  if (dlopen(of_torch.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) GTEST_SKIP() << dlerror();
  void* library = dlopen((build_folder() + "/lib/liboptrush_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_NE(dlsym(library, kMakeNccl), nullptr);
}
const bool kJobs = add_jobs({{"alone", alone}, {"ring", ring}});
}  // namespace
}  // namespace optrush::testing
