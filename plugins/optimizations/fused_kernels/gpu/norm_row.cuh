// RMSNorm and residual + RMSNorm of one row (arXiv:1910.07467), which stays in the registers of a block of `threads`.
// Needs lanes.cuh.

/// N neighbours a load, `steps` loads a thread. S, D: types of x and of delta. Calls each(column, N numbers of the
/// norm). Every thread of the block takes part.
template <int N, int steps, int threads, bool adds, class S, class D, class Each>
__device__ inline void norm_row(const S* __restrict__ x, const D* __restrict__ delta,
                                const Wide<S>* __restrict__ weight, S* __restrict__ sum, Wide<S>* __restrict__ rstd,
                                long long number, long long width, double eps, const Each& each) {
  using W = Wide<S>;
  const long long row = number * width;
  Pack<S, N> given[steps];
  Pack<D, N> deltas[adds ? steps : 1];
  Pack<W, N> weights[steps];
#pragma unroll
  for (int step = 0; step < steps; ++step) {  // all loads start before the thread waits for the first one
    const int column = (step * threads + static_cast<int>(threadIdx.x)) * N;
    if (column >= width) continue;
    given[step] = Pack<S, N>::at(x + row + column);
    if constexpr (adds) deltas[step] = Pack<D, N>::at(delta + row + column);
    weights[step] = Pack<W, N>::at(weight + column);
  }
  W values[steps][N];
  W squares = 0;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int column = (step * threads + static_cast<int>(threadIdx.x)) * N;
    if (column >= width) continue;
    given[step].unpack(values[step]);
    if constexpr (adds) {
      Wide<D> added[N];
      deltas[step].unpack(added);
#pragma unroll
      for (int i = 0; i < N; ++i) values[step][i] = widen(narrow<S>(values[step][i] + added[i]));
      store(sum + row + column, values[step]);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) squares += values[step][i] * values[step][i];
  }
  const W scale = W(1) / sqrt(block_sum(squares) / static_cast<W>(width) + static_cast<W>(eps));
  if (threadIdx.x == 0) rstd[number] = scale;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int column = (step * threads + static_cast<int>(threadIdx.x)) * N;
    if (column >= width) continue;
    W factors[N];
    weights[step].unpack(factors);
#pragma unroll
    for (int i = 0; i < N; ++i) factors[i] *= values[step][i] * scale;
    each(column, factors);
  }
}
