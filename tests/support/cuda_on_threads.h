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
/// Dynamic shared memory, as much as a block of sm_90 has.
alignas(16) inline uint4 block_memory[232448 / sizeof(uint4)];

namespace optrush::testing {
/// The operands of a product on tensor cores, by lanes.
struct Warp {
  std::barrier<> barrier{32};
  unsigned int a[32][4], b[32][2];
};
/// State of the current block.
struct Block {
  explicit Block(unsigned int threads)
      : barrier(threads), exchanged(threads), warps(std::make_unique<Warp[]>((threads + 31) / 32)) {}
  std::barrier<> barrier;
  std::vector<double> exchanged;
  std::unique_ptr<Warp[]> warps;
};
inline std::unique_ptr<Block> block;
/// Whether this thread is in a barrier. What it reads there is no access of the kernel
/// (support/memory_requests.h).
inline thread_local bool waits = false;

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

inline void __syncthreads() {
  optrush::testing::waits = true;
  optrush::testing::block->barrier.arrive_and_wait();
  optrush::testing::waits = false;
}
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
inline float __uint_as_float(unsigned int x) { return std::bit_cast<float>(x); }
/// cvt.rna.tf32.f32: 10 bits behind the point, halves away from 0.
inline unsigned int rounded_to_tf32(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::isfinite(x) ? (bits + 0x1000) & ~0x1FFFU : bits;
}
/// mma.m16n8k8 of TF32 (PTX ISA, "Matrix Fragments for mma.m16n8k8"): each lane's part of sum (16, 8) +=
/// a (16, 8) b (8, 8).
inline void multiply_tf32(float* sum, const unsigned int (&a)[4], const unsigned int (&b)[2]) {
  auto& warp = optrush::testing::block->warps[threadIdx.x / 32];
  const unsigned int lane = threadIdx.x % 32;
  std::copy(a, a + 4, warp.a[lane]);
  std::copy(b, b + 2, warp.b[lane]);
  warp.barrier.arrive_and_wait();
  for (unsigned int i = 0; i < 4; ++i) {
    const unsigned int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (unsigned int k = 0; k < 8; ++k)
      sum[i] += __uint_as_float(warp.a[row % 8 * 4 + k % 4][row / 8 + k / 4 * 2]) *
                __uint_as_float(warp.b[column * 4 + k % 4][k / 4]);
  }
  warp.barrier.arrive_and_wait();
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
/// By value, as on a GPU: a reference would read memory twice.
template <class T>
T max(T a, T b) {
  return std::max(a, b);
}
template <class T>
T min(T a, T b) {
  return std::min(a, b);
}
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
