// The caching allocator of CPU tensors: blocks that never overlap, reuse, threads, and counts that stay
// exact.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "cpu_allocator/pool.h"
#include "measure/memory.h"
#include "optrush/recipe.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using cpu_allocator::Pool;
using cpu_allocator::SizeClass;

TEST(SizeClasses, FitTheRequestAndWasteAtMostAFifth) {
  size_t before = 0;
  for (size_t bytes = 65; bytes < (size_t{1} << 34); bytes += 1 + bytes / 37) {
    const SizeClass size = SizeClass::of(bytes);
    ASSERT_GE(size.bytes, bytes);
    ASSERT_EQ(size.bytes % 64, 0U);
    ASSERT_GE(size.index, before);
    ASSERT_EQ(SizeClass::of(size.bytes).index, size.index);
    ASSERT_LE(size.bytes - bytes, 64 + size.bytes / 5) << bytes;
    before = size.index;
  }
}

TEST(Pool, BlocksAreAlignedAndReusedLastInFirstOut) {
  Pool pool(false);
  for (const size_t bytes : {1, 64, 200, 4096, 100'000, 1 << 20, 5 << 20}) {
    void* const a = pool.allocate(bytes);
    void* const b = pool.allocate(bytes);
    EXPECT_NE(a, b);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0U);
    pool.release(a, bytes);
    pool.release(b, bytes);
    EXPECT_EQ(pool.allocate(bytes), b);
    EXPECT_EQ(pool.allocate(bytes), a);
  }
}

TEST(Pool, KeepsReservedMemoryUntilItIsTrimmed) {
  Pool pool(true);
  constexpr size_t kBytes = 10 << 20;
  void* const block = pool.allocate(kBytes);
  std::memset(block, 1, kBytes);
  const int64_t reserved = pool.reserved();
  EXPECT_GE(reserved, int64_t{kBytes});
  pool.release(block, kBytes);
  EXPECT_EQ(pool.reserved(), reserved);
  EXPECT_EQ(pool.allocate(kBytes), block);
  EXPECT_EQ(pool.reserved(), reserved);
  pool.release(block, kBytes);
  pool.trim();
  EXPECT_EQ(pool.reserved(), 0);
  EXPECT_EQ(pool.peak_reserved(), reserved);
  pool.reset_peak();
  EXPECT_EQ(pool.peak_reserved(), 0);
}

TEST(Pool, ImpossibleAllocationIsOutOfMemory) {
  Pool pool(false);
  for (const size_t bytes : {size_t{1} << 50, size_t{1} << 62}) {
    try {
      pool.allocate(bytes);
      FAIL() << bytes;
    } catch (const c10::OutOfMemoryError& e) {
      EXPECT_NE(std::string(e.what()).find("tried to allocate " + std::to_string(bytes) + " bytes"),
                std::string::npos);
    }
  }
}

/// Allocates, frees and checks at random. Every live block is filled with its own mark.
void stress(Pool& pool, uint32_t seed, int rounds) {
  struct Live {
    unsigned char* data;
    size_t bytes;
    unsigned char mark;
  };
  std::mt19937 random(seed);
  std::vector<Live> live;
  const auto drop = [&](size_t i) {
    const Live block = live[i];
    ASSERT_EQ(block.data[block.bytes - 1], block.mark) << "block of " << block.bytes << " bytes";
    for (size_t at = 0; at < block.bytes; at += 61) ASSERT_EQ(block.data[at], block.mark);
    pool.release(block.data, block.bytes);
    live[i] = live.back();
    live.pop_back();
  };
  for (int round = 0; round < rounds; ++round) {
    if (live.size() > 64 || (!live.empty() && random() % 2 == 0)) {
      drop(random() % live.size());
      continue;
    }
    const size_t bytes = 1 + random() % (size_t{1} << (4 + random() % 18));
    const auto mark = static_cast<unsigned char>(random());
    auto* data = static_cast<unsigned char*>(pool.allocate(bytes));
    std::memset(data, mark, bytes);
    live.push_back({data, bytes, mark});
  }
  while (!live.empty()) drop(live.size() - 1);
}

TEST(Pool, LiveBlocksNeverOverlap) {
  Pool pool(false);
  for (uint32_t seed = 0; seed < 4; ++seed) stress(pool, seed, 4000);
}

TEST(Pool, ThreadsShareThePool) {
  Pool pool(false);
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, seed] { stress(pool, 100 + seed, 3000); });
  for (auto& thread : threads) thread.join();
}

TEST(Pool, BlocksMayBeFreedByAnotherThread) {
  Pool pool(false);
  std::vector<void*> blocks;
  std::thread maker([&] {
    for (int i = 0; i < 1000; ++i) blocks.push_back(pool.allocate(300));
  });
  maker.join();
  EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), 1000U);
  std::thread([&] {
    for (void* block : blocks) pool.release(block, 300);
  }).join();
  const int64_t reserved = pool.reserved();
  for (int i = 0; i < 1000; ++i) pool.allocate(300);
  EXPECT_EQ(pool.reserved(), reserved);
}

/// The last tests, because the process takes its tensors from the pool afterwards.
TEST(PoolOfARun, CountsAndLossesEqualARunWithoutThePool) {
  install_cpu_memory_tracking();
  const auto run = [](std::vector<PluginUse> stack) {
    const int64_t before = cpu_allocated();
    Json result = Trained(nano_spec(std::move(stack))).train();
    result["peak"] = result["memory"]["peak_allocated"].get<int64_t>() - before;
    return result;
  };
  run({});  // fills the caches of LibTorch's libraries
  const Json plain = run({});
  const Tensor older = at::full({1000}, 7.0);
  for (const bool huge : {false, true}) {
    const Json pooled = run({{"cpu_allocator", {{"huge_pages", huge}}}});
    EXPECT_EQ(losses(pooled), losses(plain));
    EXPECT_EQ(pooled["peak"], plain["peak"]);
    EXPECT_TRUE(plain["memory"]["peak_reserved"].is_null());
    EXPECT_GE(pooled["memory"]["peak_reserved"].get<int64_t>(), pooled["peak"].get<int64_t>());
  }
  // Blocks of the former allocator stay valid and are freed by it.
  EXPECT_EQ(older.sum().item<double>(), 7000);
}

/// The first loss of a run whose blocks read a tensor after it was freed.
Json loss_with_use_after_free(const char* poison) {
  ::setenv("OPTRUSH_POISON", poison, 1);
  install_cpu_memory_tracking();
  const RunSpec spec = nano_spec({{"cpu_allocator", Json::object()}});
  Trained trained(spec, [](Recipe& recipe) {
    recipe.unit.wrap(Phase::adapter,
                     [](UnitFunction inner, const Unit& unit) -> UnitFunction {
                       if (unit.role != UnitRole::block) return inner;
                       return [inner](const Tensor& x, const Batch& batch) {
                         Tensor freed = at::ones({100'003}, x.options());
                         const Tensor alias = at::from_blob(freed.data_ptr(), freed.sizes(), freed.options());
                         freed.reset();
                         return inner(x, batch) + alias.narrow(0, 1000, x.size(-1));
                       };
                     },
                     {.trace = Trace::aten});
  });
  const Json loss = trained.train().at("steps").at(0).at("loss");
  ::unsetenv("OPTRUSH_POISON");
  install_cpu_memory_tracking();
  return loss;
}

TEST(PoolOfARun, UseAfterFreeGivesNaNIfFreedMemoryIsPoisoned) {
  EXPECT_TRUE(loss_with_use_after_free("0").is_number());
  EXPECT_NE(error_of([] { loss_with_use_after_free("1"); }).find("the loss is not finite at step 0"),
            std::string::npos);
  EXPECT_NE(error_of([] { loss_with_use_after_free("yes"); }).find("OPTRUSH_POISON is 'yes'"),
            std::string::npos);
}
}  // namespace
}  // namespace optrush::testing
