// RMSNorm and residual + RMSNorm (arXiv:1910.07467): a row stays in the registers of one block of `threads`, N
// neighbours a load, `steps` loads a thread. S, D, O: types of x, of delta, of the result.
#include "lanes.cuh"
#include "norm_row.cuh"

template <class S, class D, class O, int N, int steps, int threads, bool adds>
__global__ void __launch_bounds__(threads, N > 1 && sizeof(S) < 8 ? 1024 / threads : 1)
    norm_forward(const S* __restrict__ x, const D* __restrict__ delta, const Wide<S>* __restrict__ weight,
                 S* __restrict__ sum, O* __restrict__ out, Wide<S>* __restrict__ rstd, long long width, double eps,
                 float* __restrict__ largest) {
  Wide<O> most = 0;
  O* __restrict__ const row = out + blockIdx.x * width;
  norm_row<N, steps, threads, adds>(x, delta, weight, sum, rstd, blockIdx.x, width, eps,
                                    [&](int column, const Wide<S>(&normed)[N]) {
                                      store(row + column, normed);
                                      most = max(most, largest_of(normed));
                                    });
  if (largest != nullptr) note_largest<O>(largest, most);
}

/// Each block takes every gridDim.x-th row and keeps its part of the weight's gradient in registers. While it waits for
/// the sum over a row, other blocks load: the registers of a next row would cost one of them. `largest`: of delta's
/// gradient. Its type D is S if the two gradients are one tensor.
template <class S, class D, class O, int N, int steps, int threads, bool adds, bool lowers>
__global__ void __launch_bounds__(threads, 1)
    norm_backward(const S* __restrict__ s, const Wide<S>* __restrict__ rstd, const Wide<S>* __restrict__ weight,
                  const O* __restrict__ out_gradient, const S* __restrict__ sum_gradient, S* __restrict__ gradient,
                  D* __restrict__ delta_gradient, Wide<S>* __restrict__ weight_parts, long long rows, long long width,
                  float* __restrict__ largest) {
  using W = Wide<S>;
  W parts[steps][N] = {};
  W most = 0;
  for (long long number = blockIdx.x; number < rows; number += gridDim.x) {
    const long long row = number * width;
    const W scale = rstd[number];
    W values[steps][N], scaled[steps][N];
    Pack<S, N> residuals[adds ? steps : 1];
    W along = 0;
    if constexpr (adds) {
#pragma unroll
      for (int step = 0; step < steps; ++step) {  // needed only at the end, but started before the sum
        const int column = (step * threads + static_cast<int>(threadIdx.x)) * N;
        if (column < width) residuals[step] = Pack<S, N>::at(sum_gradient + row + column);
      }
    }
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const int column = (step * threads + static_cast<int>(threadIdx.x)) * N;
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
      const int column = (step * threads + static_cast<int>(threadIdx.x)) * N;
      if (column >= width) continue;
      W result[N];
      if constexpr (adds) residuals[step].unpack(result);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const W own = scaled[step][i] - values[step][i] * pull;
        result[i] = adds ? result[i] + own : own;
      }
      store(gradient + row + column, result);
      if constexpr (lowers) store(delta_gradient + row + column, result);
      most = max(most, largest_of(result));
    }
  }
  if (largest != nullptr) note_largest<D>(largest, static_cast<Wide<D>>(most));
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int column = (step * threads + static_cast<int>(threadIdx.x)) * N;
    if (column < width) store(weight_parts + blockIdx.x * width + column, parts[step]);
  }
}

/// The second half of the weight's gradient: `lines` threads a column, then their sums, always in the same order.
/// A block has few columns, so that a matrix of usual width fills the GPU.
template <class W, class T, int columns, int lines>
__global__ void sum_weight_parts(const W* __restrict__ parts, T* __restrict__ gradient, long long blocks,
                                 long long width) {
  __shared__ W sums[lines][columns];
  const long long column = static_cast<long long>(blockIdx.x) * columns + threadIdx.x;
  W sum = 0;
  if (column < width) {
#pragma unroll 8
    for (long long block = threadIdx.y; block < blocks; block += lines) sum += parts[block * width + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int i = 1; i < lines; ++i) sum += sums[i][threadIdx.x];
  gradient[column] = narrow<T>(static_cast<Wide<T>>(sum));
}
