// Decoding numbers of 4 bits (arXiv:2305.14314). A thread writes 16 bytes, of numbers that lie in one block: it reads 2 or 4
// bytes and a scale, and looks the numbers up in a table with each number in a separate bank of shared memory.
#include "lanes.cuh"

constexpr int kThreads = 256;
// The same as in numbers.h.
constexpr int kBlock = 64, kScales = 256;
__device__ const float kNumbers[16] = {-1.0f,
                                       -0.6961928009986877f,
                                       -0.5250730514526367f,
                                       -0.39491748809814453f,
                                       -0.28444138169288635f,
                                       -0.18477343022823334f,
                                       -0.09105003625154495f,
                                       0.0f,
                                       0.07958029955625534f,
                                       0.16093020141124725f,
                                       0.24611230194568634f,
                                       0.33791524171829224f,
                                       0.44070982933044434f,
                                       0.5626170039176941f,
                                       0.7229568362236023f,
                                       1.0f};

/// Filled by the host.
struct Encoded {
  const unsigned char* numbers;
  const float* scales;
  const signed char* scale_codes;
  const float *scale_means, *scale_steps;
  long long count;
};

__device__ inline float scale_of(const Encoded& from, long long block) {
  if (from.scales != nullptr) return from.scales[block];
  const long long group = block / kScales;
  // Rounded twice, as on a CPU: one fused operation would give other bits.
  return __fadd_rn(from.scale_means[group], __fmul_rn(static_cast<float>(from.scale_codes[block]), from.scale_steps[group]));
}

/// Moves whole packs if both addresses are aligned to one, otherwise single numbers.
template <class T, bool packed>
__global__ void decode(Encoded from, T* to) {
  constexpr int kLanes = 16 / sizeof(T);
  using Move = typename MoveOf<kLanes / 2>::type;
  __shared__ float table[16];
  if (threadIdx.x < 16) table[threadIdx.x] = kNumbers[threadIdx.x];
  __syncthreads();
  const long long first = (static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x) * kLanes;
  if (first >= from.count) return;
  const float scale = scale_of(from, first / kBlock);
  const unsigned char* bytes = from.numbers + first / 2;
  if (packed && first + kLanes <= from.count) {
    alignas(4) unsigned char pairs[kLanes / 2];
    *reinterpret_cast<Move*>(pairs) = *reinterpret_cast<const Move*>(bytes);
    float out[kLanes];
#pragma unroll
    for (int i = 0; i < kLanes / 2; ++i) {
      out[2 * i] = table[pairs[i] >> 4] * scale;
      out[2 * i + 1] = table[pairs[i] & 15] * scale;
    }
    store(to + first, out);
    return;
  }
  for (int i = 0; i < kLanes && first + i < from.count; ++i)
    to[first + i] = narrow<T>(table[i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15] * scale);
}
