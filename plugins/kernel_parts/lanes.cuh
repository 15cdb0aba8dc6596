// Common code of the kernels: types, packs of adjacent elements, and sums over a block.
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

/// The data that one instruction moves: up to 16 bytes.
template <int bytes>
struct MoveOf {
  using type = uint4;
};
template <>
struct MoveOf<8> {
  using type = uint2;
};
template <>
struct MoveOf<4> {
  using type = unsigned int;
};
template <>
struct MoveOf<2> {
  using type = unsigned short;
};
template <>
struct MoveOf<1> {
  using type = unsigned char;
};

template <class Move>
__device__ inline void put_at(Move* to, Move v) {
  *to = v;
}
#ifdef __CUDA_ARCH__
/// Stores a vector by one instruction. The compiler may split an assignment into stores of single numbers.
template <>
__device__ inline void put_at(uint4* to, uint4 v) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
template <>
__device__ inline void put_at(uint2* to, uint2 v) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(v.x), "r"(v.y) : "memory");
}
#endif

/// N elements, loaded and stored in as few instructions as possible.
template <class T, int N>
struct Pack {
  static constexpr int kBytes = sizeof(T) * N;
  using Move = typename MoveOf<(kBytes < 16 ? kBytes : 16)>::type;
  static constexpr int kMoves = kBytes / static_cast<int>(sizeof(Move));
  Move moves[kMoves];

  __device__ static Pack at(const T* from) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < kMoves; ++i) pack.moves[i] = reinterpret_cast<const Move*>(from)[i];
    return pack;
  }
  __device__ void put(T* to) const {
#pragma unroll
    for (int i = 0; i < kMoves; ++i) put_at(reinterpret_cast<Move*>(to) + i, moves[i]);
  }
  __device__ void unpack(Wide<T> (&to)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = widen(reinterpret_cast<const T*>(moves)[i]);
  }
  __device__ static Pack of(const Wide<T> (&from)[N]) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < N; ++i) reinterpret_cast<T*>(pack.moves)[i] = narrow<T>(from[i]);
    return pack;
  }
};

template <int N, class T>
__device__ inline void load(const T* from, Wide<T> (&to)[N]) {
  Pack<T, N>::at(from).unpack(to);
}
template <int N, class T>
__device__ inline void store(T* to, const Wide<T> (&from)[N]) {
  Pack<T, N>::of(from).put(to);
}

/// Returns join(join(a, b), c)... over the block to every thread, always in the same order. Every thread of the block's
/// warps takes part.
template <class W, class Join>
__device__ inline W block_join(W value, const Join& join) {
  __shared__ W parts[32];
  for (int step = 16; step > 0; step /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, step));
  __syncthreads();  // the result before this one may still be read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  W all = parts[0];
  for (int i = 1; i < static_cast<int>(blockDim.x + 31) / 32; ++i) all = join(all, parts[i]);
  return all;
}

template <class W>
__device__ inline W block_sum(W value) {
  return block_join(value, [](W a, W b) { return a + b; });
}
template <class W>
__device__ inline W block_max(W value) {
  return block_join(value, [](W a, W b) { return max(a, b); });
}

/// The largest absolute value.
template <int N, class W>
__device__ inline W largest_of(const W (&numbers)[N]) {
  W largest = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) largest = max(largest, max(numbers[i], -numbers[i]));
  return largest;
}

/// `largest`: the largest absolute value that this thread wrote as T. Raises a number that is not negative to the
/// largest one of the block. Every thread of the block takes part.
template <class T>
__device__ inline void raise_to(float* __restrict__ number, Wide<T> largest) {
  largest = block_max(largest);
  // Floats that are not negative have the same order as their bits.
  if (threadIdx.x == 0)
    atomicMax(reinterpret_cast<int*>(number), __float_as_int(static_cast<float>(widen(narrow<T>(largest)))));
}

/// The parts of a tensor's largest absolute value. Some of the blocks share a part.
constexpr int kLargestParts = 512;

template <class T>
__device__ inline void note_largest(float* __restrict__ parts, Wide<T> largest) {
  raise_to<T>(parts + blockIdx.x % kLargestParts, largest);
}
