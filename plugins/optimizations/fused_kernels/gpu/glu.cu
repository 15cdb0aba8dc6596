// Gated linear units (arXiv:2002.05202): N neighbours a thread.
#include "lanes.cuh"
#include "sigmoid.cuh"
#include "units.cuh"

template <class T, int N, bool kGelu>
__global__ void glu_forward(const T* __restrict__ gate, const T* __restrict__ up, T* __restrict__ out, long long count,
                            float* __restrict__ largest) {
  const long long at = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  Wide<T> most = 0;
  if (at < count) {
    Wide<T> x[N], other[N];
    load(gate + at, x);
    load(up + at, other);
    glu<kGelu>(x, other);
    store(out + at, x);
    most = largest_of(x);
  }
  if (largest != nullptr) note_largest<T>(largest, most);
}

/// The gradients have rows of `width` numbers that start `stride` numbers apart. `largest`: the parts for the gate's
/// gradient, then the parts for up's gradient.
template <class T, int N, bool kGelu>
__global__ void glu_backward(const T* __restrict__ gate, const T* __restrict__ up,
                             const T* __restrict__ out_gradient, T* __restrict__ gate_gradient,
                             T* __restrict__ up_gradient, long long count, long long width, long long stride,
                             float* __restrict__ largest) {
  using W = Wide<T>;
  const long long at = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  W most_of_gate = 0, most_of_up = 0;
  if (at < count) {
    W x[N], other[N], g[N];
    load(gate + at, x);
    load(up + at, other);
    load(out_gradient + at, g);
    glu_gradients<kGelu>(x, other, g);
    const long long to = width == stride ? at : at + at / width * (stride - width);
    store(gate_gradient + to, g);
    store(up_gradient + to, other);
    most_of_gate = largest_of(g);
    most_of_up = largest_of(other);
  }
  if (largest == nullptr) return;
  note_largest<T>(largest, most_of_gate);
  note_largest<T>(largest + kLargestParts, most_of_up);
}
