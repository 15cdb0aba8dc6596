// Gated linear units (arXiv:2002.05202): N neighbours a thread.
#include "lanes.cuh"
#include "sigmoid.cuh"

/// The activation of the gate is x * sigmoid(argument of x): see Gate. `x` is clamped if the cube may overflow; the
/// sigmoid is then 0 or 1.
template <class W, bool kGelu>
struct Argument {
  W x, value, slope;
  __device__ explicit Argument(W given) : x(given), value(given), slope(1) {
    if constexpr (kGelu) {
      constexpr W kFirst = W(1.5957691216057308), kThird = kFirst * W(0.044715);
      x = given > W(30) ? W(30) : given < W(-30) ? W(-30) : given;
      value = x * (kFirst + kThird * x * x);
      slope = kFirst + W(3) * kThird * x * x;
    }
  }
};

template <class T, int N, bool kGelu>
__global__ void glu_forward(const T* __restrict__ gate, const T* __restrict__ up, T* __restrict__ out, long long count,
                            float* __restrict__ largest) {
  const long long at = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  Wide<T> most = 0;
  if (at < count) {
    Wide<T> x[N], other[N];
    load(gate + at, x);
    load(up + at, other);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = x[i] * sigmoid(Argument<Wide<T>, kGelu>(x[i]).value) * other[i];
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
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Argument<W, kGelu> of(x[i]);
      const W y = sigmoid(of.value), scaled = g[i] * y;
      // d (x y) = y (1 + x (1 - y) d argument)
      g[i] = scaled * other[i] * (W(1) + of.x * (W(1) - y) * of.slope);
      other[i] = scaled * x[i];
    }
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
