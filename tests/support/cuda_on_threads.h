#pragma once
#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

/// The part of CUDA C++ that the plugins' kernels use, run by threads of the host. A block has as many
/// threads as on a GPU, and blocks run one after the other. Tests include the kernels' sources unchanged,
/// each in a separate namespace, and need no GPU. They check results, but neither speed nor races that depend
/// on a GPU's order. Rounding is as on a GPU. __expf is exact.
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): the names are CUDA's.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
#define __global__
#define __device__
#define __restrict__
#define __shared__ static
#define __launch_bounds__(...)

struct alignas(16) uint4 {
  unsigned int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned int x, y;
};
struct Place {
  unsigned int x = 0, y = 0, z = 0;
};

struct __half {
  uint16_t bits;
};
struct __nv_bfloat16 {
  uint16_t bits;
};
inline float __half2float(__half x) { return static_cast<float>(std::bit_cast<_Float16>(x.bits)); }
inline __half __float2half_rn(float x) { return {std::bit_cast<uint16_t>(static_cast<_Float16>(x))}; }
inline float __bfloat162float(__nv_bfloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

inline thread_local Place threadIdx, blockIdx;
inline Place blockDim, gridDim;

namespace optrush::testing {
/// State of the current block.
struct Block {
  explicit Block(unsigned int threads) : barrier(threads), exchanged(threads) {}
  std::barrier<> barrier;
  std::vector<double> exchanged;
};
inline std::unique_ptr<Block> block;

/// kernel<<<blocks, threads>>>. All blocks use the same threads, because starting threads takes longer than
/// their work.
inline void launch(unsigned int blocks, Place threads, const std::function<void()>& kernel) {
  const unsigned int count = threads.x * threads.y;
  gridDim = {blocks, 1, 1}, blockDim = {threads.x, threads.y, 1};
  block = std::make_unique<Block>(count);
  std::vector<std::jthread> running;
  for (unsigned int i = 0; i < count; ++i)
    running.emplace_back([&, i] {
      threadIdx = {i % threads.x, i / threads.x, 0};
      for (unsigned int number = 0; number < blocks; ++number) {
        blockIdx = {number, 0, 0};
        kernel();
        block->barrier.arrive_and_wait();  // the next block has the same shared memory
      }
    });
}
}  // namespace optrush::testing

inline void __syncthreads() { optrush::testing::block->barrier.arrive_and_wait(); }
template <class T>
T __shfl_xor_sync(unsigned int, T value, int mask) {
  auto& exchanged = optrush::testing::block->exchanged;
  const size_t own = threadIdx.y * blockDim.x + threadIdx.x, warp = own / 32 * 32;
  exchanged[own] = value;
  __syncthreads();
  const auto other = static_cast<T>(exchanged[warp + ((own - warp) ^ static_cast<size_t>(mask))]);
  __syncthreads();
  return other;
}
inline float __expf(float x) { return std::exp(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdividef(float a, float b) { return a / b; }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline int atomicMax(int* at, int value) {
  const std::atomic_ref<int> number(*at);
  int before = number.load();
  while (before < value && !number.compare_exchange_weak(before, value)) {
  }
  return before;
}
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
using std::max;
using std::min;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
