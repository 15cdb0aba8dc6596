// SiLU(gate) * up (arXiv:2002.05202): N neighbours a thread.
#include "lanes.cuh"

template <class W>
__device__ inline W sigmoid(W x) {
  return W(1) / (W(1) + exp(-x));
}

template <class T, int N>
__global__ void swiglu_forward(const T* gate, const T* up, T* out, long long count) {
  const long long at = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (at >= count) return;
  Wide<T> x[N], other[N];
  load(gate + at, x);
  load(up + at, other);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = x[i] * sigmoid(x[i]) * other[i];
  store(out + at, x);
}

template <class T, int N>
__global__ void swiglu_backward(const T* gate, const T* up, const T* out_gradient, T* gate_gradient,
                                T* up_gradient, long long count) {
  using W = Wide<T>;
  const long long at = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (at >= count) return;
  W x[N], other[N], g[N];
  load(gate + at, x);
  load(up + at, other);
  load(out_gradient + at, g);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const W y = sigmoid(x[i]), scaled = g[i] * y;
    // d SiLU = y (1 + x (1 - y))
    g[i] = scaled * other[i] * (W(1) + x[i] * (W(1) - y));
    other[i] = scaled * x[i];
  }
  store(gate_gradient + at, g);
  store(up_gradient + at, other);
}
