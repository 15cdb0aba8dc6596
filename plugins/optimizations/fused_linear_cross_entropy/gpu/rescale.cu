// Numbers times gradient / factor, in place. Only the device knows the gradient. If it is the factor, with which the
// numbers were made, nothing is read or written.
#include "lanes.cuh"

/// `count` is a multiple of N.
template <class T, int N>
__global__ void rescale(T* numbers, const Wide<T>* __restrict__ gradient, const double* __restrict__ factor,
                        long long count) {
  using W = Wide<T>;
  const W made_with = W(*factor);
  if (*gradient == made_with) return;
  const W times = *gradient / made_with;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x * N;
  for (long long at = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * N; at < count; at += step) {
    W some[N];
    load(numbers + at, some);
#pragma unroll
    for (int i = 0; i < N; ++i) some[i] *= times;
    store(numbers + at, some);
  }
}
