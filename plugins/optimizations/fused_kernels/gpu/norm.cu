// RMSNorm and residual + RMSNorm (arXiv:1910.07467): a row stays in the registers of one block, N neighbours a
// load, `steps` loads a thread. S, D, O: types of x, of delta, of the result.
#include "lanes.cuh"

template <class S, class D, class O, int N, int steps, bool adds>
__global__ void norm_forward(const S* x, const D* delta, const Wide<S>* weight, S* sum, O* out, Wide<S>* rstd,
                             long long width, double eps) {
  using W = Wide<S>;
  const long long row = blockIdx.x * width;
  W values[steps][N];
  W squares = 0;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const long long column = (static_cast<long long>(step) * blockDim.x + threadIdx.x) * N;
    if (column >= width) continue;
    load(x + row + column, values[step]);
    if constexpr (adds) {
      Wide<D> added[N];
      load(delta + row + column, added);
#pragma unroll
      for (int i = 0; i < N; ++i) values[step][i] = widen(narrow<S>(values[step][i] + added[i]));
      store(sum + row + column, values[step]);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) squares += values[step][i] * values[step][i];
  }
  const W scale = W(1) / sqrt(block_sum(squares) / static_cast<W>(width) + static_cast<W>(eps));
  if (threadIdx.x == 0) rstd[blockIdx.x] = scale;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const long long column = (static_cast<long long>(step) * blockDim.x + threadIdx.x) * N;
    if (column >= width) continue;
    W factors[N];
    load(weight + column, factors);
#pragma unroll
    for (int i = 0; i < N; ++i) factors[i] *= values[step][i] * scale;
    store(out + row + column, factors);
  }
}

/// Each block takes every gridDim.x-th row and keeps its part of the weight's gradient in registers.
template <class S, class D, class O, int N, int steps, bool adds, bool lowers>
__global__ void norm_backward(const S* s, const Wide<S>* rstd, const Wide<S>* weight, const O* out_gradient,
                              const S* sum_gradient, S* gradient, D* delta_gradient, Wide<S>* weight_parts,
                              long long rows, long long width) {
  using W = Wide<S>;
  W parts[steps][N] = {};
  for (long long number = blockIdx.x; number < rows; number += gridDim.x) {
    const long long row = number * width;
    const W scale = rstd[number];
    W values[steps][N], scaled[steps][N];
    W along = 0;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const long long column = (static_cast<long long>(step) * blockDim.x + threadIdx.x) * N;
      if (column >= width) continue;
      W factors[N];
      load(s + row + column, values[step]);
      load(out_gradient + row + column, scaled[step]);
      load(weight + column, factors);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        along += scaled[step][i] * factors[i] * values[step][i];
        scaled[step][i] *= scale;
        parts[step][i] += scaled[step][i] * values[step][i];
        scaled[step][i] *= factors[i];
      }
    }
    const W pull = block_sum(along) * scale * scale * scale / static_cast<W>(width);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const long long column = (static_cast<long long>(step) * blockDim.x + threadIdx.x) * N;
      if (column >= width) continue;
      W result[N];
      if constexpr (adds) load(sum_gradient + row + column, result);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const W own = scaled[step][i] - values[step][i] * pull;
        result[i] = adds ? result[i] + own : own;
      }
      store(gradient + row + column, result);
      if constexpr (lowers) store(delta_gradient + row + column, result);
    }
  }
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const long long column = (static_cast<long long>(step) * blockDim.x + threadIdx.x) * N;
    if (column < width) store(weight_parts + blockIdx.x * width + column, parts[step]);
  }
}

/// The second half of the weight's gradient: 8 threads a column, then their sums, always in the same order.
template <class W, class T>
__global__ void sum_weight_parts(const W* parts, T* gradient, long long blocks, long long width) {
  __shared__ W sums[8][32];
  const long long column = blockIdx.x * 32ll + threadIdx.x;
  W sum = 0;
  if (column < width)
    for (long long block = threadIdx.y; block < blocks; block += 8) sum += parts[block * width + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int i = 1; i < 8; ++i) sum += sums[i][threadIdx.x];
  gradient[column] = narrow<T>(static_cast<Wide<T>>(sum));
}
