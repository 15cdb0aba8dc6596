// Gated linear units (arXiv:2002.05202) of N neighbours. Needs lanes.cuh and sigmoid.cuh.

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

/// The product replaces the gate.
template <bool kGelu, int N, class W>
__device__ inline void glu(W (&gate)[N], const W (&up)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) gate[i] = gate[i] * sigmoid(Argument<W, kGelu>(gate[i]).value) * up[i];
}

/// The gradient of the gate replaces the gradient of the product, and the gradient of up replaces up.
template <bool kGelu, int N, class W>
__device__ inline void glu_gradients(const W (&gate)[N], W (&up)[N], W (&gradient)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const Argument<W, kGelu> of(gate[i]);
    const W y = sigmoid(of.value), scaled = gradient[i] * y;
    // d (x y) = y (1 + x (1 - y) d argument)
    gradient[i] = scaled * up[i] * (W(1) + of.x * (W(1) - y) * of.slope);
    up[i] = scaled * gate[i];
  }
}
