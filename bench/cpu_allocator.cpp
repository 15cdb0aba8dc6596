// Allocating and freeing CPU tensors' memory: malloc as the host sets it, and the pool of the plugin
// cpu_allocator. `ninja bench_cpu_allocator`, then build/bench/cpu_allocator.
#include <benchmark/benchmark.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstring>
#include <random>
#include <vector>

#include "cpu_allocator/pool.h"
#include "measure/memory.h"

namespace {
using optrush::cpu_allocator::Pool;

struct Malloc {
  void* allocate(size_t bytes) { return c10::alloc_cpu(bytes); }
  void release(void* block, size_t) { c10::free_cpu(block); }
};
template <bool huge>
struct Pooled {
  Pool pool{huge};
  void* allocate(size_t bytes) { return pool.allocate(bytes); }
  void release(void* block, size_t bytes) { pool.release(block, bytes); }
};
using SmallPages = Pooled<false>;
using HugePages = Pooled<true>;

/// Allocates and frees one block repeatedly.
template <class Source>
void one_size(benchmark::State& state) {
  Source source;
  const auto bytes = static_cast<size_t>(state.range(0)) + 64;
  for (auto _ : state) {
    void* const block = source.allocate(bytes);
    benchmark::DoNotOptimize(block);
    source.release(block, bytes);
  }
}

/// Like a training step: allocates and writes many blocks of mixed sizes, then frees them in reverse order.
template <class Source>
void step(benchmark::State& state) {
  Source source;
  std::mt19937 random(1);
  std::vector<size_t> sizes;
  for (int i = 0; i < 400; ++i) sizes.push_back((size_t{1} << (8 + random() % 15)) + random() % 1000 + 64);
  std::vector<void*> blocks(sizes.size());
  const auto once = [&] {
    for (size_t i = 0; i < sizes.size(); ++i) {
      blocks[i] = source.allocate(sizes[i]);
      std::memset(blocks[i], static_cast<int>(i), sizes[i]);
    }
    for (size_t i = sizes.size(); i-- > 0;) source.release(blocks[i], sizes[i]);
  };
  once();  // the first step faults pages in with either allocator
  for (auto _ : state) once();
}

BENCHMARK(one_size<Malloc>)->RangeMultiplier(16)->Range(64, 64 << 20);
BENCHMARK(one_size<SmallPages>)->RangeMultiplier(16)->Range(64, 64 << 20);
BENCHMARK(step<Malloc>)->Unit(benchmark::kMillisecond);
BENCHMARK(step<SmallPages>)->Unit(benchmark::kMillisecond);
BENCHMARK(step<HugePages>)->Unit(benchmark::kMillisecond);
}  // namespace

int main(int argc, char** argv) {
  optrush::install_cpu_memory_tracking();  // malloc keeps freed memory, as in every run
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
