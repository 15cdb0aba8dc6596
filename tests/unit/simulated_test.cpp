// The simulated device refuses operations that a GPU refuses, and counts memory as LibTorch's allocator.
#include "simulated/device.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "measure/step_costs.h"
#include "optrush/error.h"
#include "optrush/tensor.h"
#include "optrush/torch_versions/cublas_workspace.h"
#include "simulated/caching_allocator.h"
#include "simulated/ledger.h"

namespace optrush::testing {
namespace {
TEST(Simulated, RefusesToMixDevicesAndToReadValues) {
  const at::Device device = simulated::open();
  const Tensor x = at::ones({2, 3}), there = x.to(device);
  EXPECT_EQ(at::mm(there, there.t()).sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_NO_THROW(there * at::scalar_tensor(2.0));
  EXPECT_THROW(there + x, c10::Error);
  EXPECT_THROW(at::mm(there, x.t()), c10::Error);
  EXPECT_THROW(there.sum().item<float>(), Error);
  EXPECT_THROW(there.to(at::kCPU), Error);
  EXPECT_THROW(at::empty({2, 3}).copy_(there, /*non_blocking=*/true), Error) << "pageable memory";
  Tensor pinned = at::empty({2, 3}, at::TensorOptions(at::kFloat).pinned_memory(true));
  EXPECT_NO_THROW(pinned.copy_(there, /*non_blocking=*/true));
}

constexpr int64_t kMiB = int64_t{1} << 20;

/// The numbers are from the allocator of LibTorch 2.11.
TEST(CachingAllocator, SegmentsMatchLibTorch) {
  simulated::CachingAllocator allocator{simulated::CachingAllocator::Settings{}};
  const auto expect = [&](int64_t allocated, int64_t reserved) {
    EXPECT_EQ(allocator.allocated(), allocated);
    EXPECT_EQ(allocator.reserved(), reserved);
  };
  const int64_t tiny = allocator.allocate(1, 0);
  expect(512, 2 * kMiB);
  allocator.allocate(kMiB, 0);  // 1 MiB is small, and still fits beside the 512 bytes
  expect(512 + kMiB, 2 * kMiB);
  allocator.allocate(kMiB, 0);
  expect(512 + 2 * kMiB, 4 * kMiB);
  const int64_t middle = allocator.allocate(kMiB + 1, 0);  // the first large block: a part of 20 MiB
  expect(1024 + 3 * kMiB, 24 * kMiB);
  const int64_t large = allocator.allocate(11 * kMiB, 0);  // from the rest of the 20 MiB
  expect(1024 + 14 * kMiB, 24 * kMiB);
  allocator.allocate(11 * kMiB, 0);  // a segment of its size, rounded to 2 MiB; 1 MiB over is not split off
  expect(1024 + 26 * kMiB, 36 * kMiB);
  allocator.release(large);
  allocator.release(middle);  // neighbours: 20 MiB again
  allocator.release(tiny);
  expect(14 * kMiB, 36 * kMiB);
  allocator.allocate(20 * kMiB, 0);
  expect(34 * kMiB, 36 * kMiB);
  allocator.allocate(4 * kMiB, 1);  // another stream does not use this free memory
  expect(38 * kMiB, 56 * kMiB);
}

TEST(CachingAllocator, TakesTheSmallestFreeBlockThatFits) {
  simulated::CachingAllocator allocator{simulated::CachingAllocator::Settings{}};
  const int64_t wide = allocator.allocate(64 * kMiB, 0), narrow = allocator.allocate(32 * kMiB, 0);
  allocator.release(wide);
  allocator.release(narrow);
  EXPECT_EQ(allocator.allocate(30 * kMiB, 0), narrow);
  EXPECT_EQ(allocator.allocate(60 * kMiB, 0), wide);
  EXPECT_EQ(allocator.reserved(), 96 * kMiB);
  EXPECT_EQ(allocator.allocated(), 90 * kMiB);
}

/// When sizes change, fixed segments are left unused. An expandable segment is not.
TEST(CachingAllocator, ExpandableSegmentsGrow) {
  simulated::CachingAllocator fixed{simulated::CachingAllocator::Settings{}},
      expandable{simulated::CachingAllocator::Settings{.expandable = true}};
  for (auto* allocator : {&fixed, &expandable})
    for (const int64_t size : {40, 60, 80}) allocator->release(allocator->allocate(size * kMiB, 0));
  EXPECT_EQ(fixed.reserved(), 180 * kMiB);
  EXPECT_EQ(expandable.reserved(), 80 * kMiB);
  expandable.allocate(75 * kMiB, 0);
  expandable.allocate(10 * kMiB, 0);  // 5 MiB are left at the end: one more page of 20
  EXPECT_EQ(expandable.reserved(), 100 * kMiB);
}

TEST(Workspaces, SizeDependsOnArchitectureAndCublasVariable) {
  const auto workspace = [](const char* architecture) {
    simulated::Ledger ledger(simulated::Form(at::kCUDA, architecture));
    ledger.multiply(0);
    ledger.multiply(0);
    EXPECT_EQ(ledger.use().now.workspaces, kKeepsCublasWorkspaces ? ledger.use().peak.workspaces : 0);
    return ledger.use().peak.workspaces;
  };
  EXPECT_EQ(workspace("sm_80"), 8 * kMiB + 128 * 1024);
  EXPECT_EQ(workspace("sm_89"), 8 * kMiB + 128 * 1024);
  for (const char* newer : {"sm_90", "sm_100", "sm_120"}) EXPECT_EQ(workspace(newer), 32 * kMiB) << newer;
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2:16:8", 1);
  EXPECT_EQ(workspace("sm_90"), 8 * kMiB + 128 * 1024);
  setenv("CUBLAS_WORKSPACE_CONFIG", "nothing", 1);
  EXPECT_EQ(workspace("sm_90"), 32 * kMiB);
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  simulated::Ledger cpu{simulated::Form(at::kCPU)};
  cpu.multiply(0);
  EXPECT_EQ(cpu.use().now.total(), 0);
}

/// Or one at a time, if each product has its own.
TEST(Workspaces, OneForEachThreadAndStreamThatMultiplies) {
  simulated::Ledger ledger{simulated::Form(at::kCUDA)};
  ledger.multiply(0);
  ledger.multiply(1);
  std::thread([&] { ledger.multiply(0); }).join();
  EXPECT_EQ(ledger.use().peak.workspaces, (kKeepsCublasWorkspaces ? 3 : 1) * 32 * kMiB);
}

TEST(Simulated, AForwardAndABackwardHaveAWorkspaceEach) {
  const at::Device device = simulated::open(at::kCUDA);
  const auto on_device = at::TensorOptions(device);
  const Tensor x = at::empty({4, 4}, on_device), w = at::empty({4, 4}, on_device).requires_grad_();
  EXPECT_EQ(simulated::allocated().workspaces, 0);
  const Tensor loss = at::mm(x, w).sum();
  const int64_t kept = kKeepsCublasWorkspaces ? 32 * kMiB : 0;
  EXPECT_EQ(simulated::allocated().workspaces, kept);
  loss.backward();
  EXPECT_EQ(simulated::allocated().workspaces, 2 * kept);
  EXPECT_EQ(simulated::reserved(), 34 * kMiB + kept) << "segments of 32 MiB, and one of 2 for small tensors";
  EXPECT_EQ(simulated::allocated().rounding % 4, 0);
  EXPECT_EQ(simulated::peak().total(),
            simulated::peak().tensors + simulated::peak().rounding + 32 * kMiB + kept);
}

int64_t launches_on_a_gpu(const std::function<void(const at::TensorOptions&)>& call) {
  const at::Device gpu = simulated::open(at::kCUDA);
  const Params none{};
  StepCosts costs(none, gpu);
  costs.enter(Bucket::forward);
  call(at::TensorOptions(gpu));
  costs.stop();
  return costs.total().launches;
}

/// cuBLAS solves a batch after a copy and two kernels that write its pointers, and few large matrices one by
/// one.
TEST(Simulated, TriangularSolutionsLaunchTheKernelsOfAGpu) {
  const auto launches = [](int64_t count, int64_t size) {
    return launches_on_a_gpu([&](const auto& options) {
      at::linalg_solve_triangular(at::empty({count, size, size}, options),
                                  at::empty({count, size, 4}, options),
                                  /*upper=*/false);
    });
  };
  EXPECT_EQ(launches(9, 64), 4);
  EXPECT_EQ(launches(8, 63), 4);
  EXPECT_EQ(launches(8, 64), 9);
}

TEST(Simulated, SumsOfRowsAndJoinedTensorsLaunchTheKernelsOfAGpu) {
  EXPECT_EQ(launches_on_a_gpu([](const auto& options) { at::empty({8}, options).cumsum(0); }), 2);
  EXPECT_EQ(launches_on_a_gpu([](const auto& options) { at::empty({4, 8}, options).cumsum(1); }), 1);
  EXPECT_EQ(launches_on_a_gpu([](const auto& options) { at::empty({8, 4}, options).t().cumsum(1); }), 2);
  EXPECT_EQ(launches_on_a_gpu([](const auto& options) {
              const Tensor x = at::empty({2, 2, 2, 2}, options);
              at::cat({x, x, x});
            }),
            1);
  EXPECT_EQ(launches_on_a_gpu([](const auto& options) {
              const Tensor x = at::empty({2, 2, 2, 2, 2}, options);
              at::cat({x, x, x});
            }),
            3);
}

/// Memory of an earlier device is counted separately.
TEST(Simulated, OpensWithEmptyMemory) {
  const at::Device device = simulated::open(at::kCUDA);
  Tensor kept = at::empty({1024}, at::TensorOptions(device));
  simulated::open(at::kCPU);
  EXPECT_EQ(simulated::allocated().total(), 0);
  kept.reset();
  EXPECT_EQ(simulated::allocated().total(), 0);
}
}  // namespace
}  // namespace optrush::testing
