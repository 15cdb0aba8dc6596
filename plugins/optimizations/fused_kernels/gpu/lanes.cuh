// What the kernels share: types, packs of numbers that move together, and sums over a block.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// The type to compute in.
template <class T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
template <class T>
using Wide = typename WideOf<T>::type;

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ inline T narrow(Wide<T> x) {
  return x;
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// N numbers, in loads and stores of 16 bytes where they are that many.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T values[N];
};

template <int N, class T>
__device__ inline void load(const T* from, Wide<T> (&to)[N]) {
  const auto pack = *reinterpret_cast<const Pack<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = widen(pack.values[i]);
}

template <int N, class T>
__device__ inline void store(T* to, const Wide<T> (&from)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.values[i] = narrow<T>(from[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// The sum over the block, in every thread. Always in the same order.
template <class W>
__device__ inline W block_sum(W value) {
  __shared__ W parts[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  __syncthreads();  // the sum before this one may still be read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  W sum = 0;
  for (int i = 0; i < static_cast<int>(blockDim.x + 31) / 32; ++i) sum += parts[i];
  return sum;
}
