// Softmax cross entropy and its gradient in place (running maximum and sum: arXiv:1805.02867): a block takes a
// row, N neighbours a load. The second pass over the row begins at the end of the first one, because the last numbers
// are most likely still in the L2 cache.
#include "lanes.cuh"

__device__ inline double exponential(double x) { return exp(x); }
/// Its error is at most 2 + 1.2 |x| units in the last place. The larger the error, the smaller e^x.
__device__ inline float exponential(float x) { return __expf(x); }

__device__ inline double hyperbolic_tangent(double x) { return tanh(x); }
__device__ inline float hyperbolic_tangent(float x) { return tanhf(x); }

/// Logits without a cap.
template <class W, bool capped>
struct Cap {
  __device__ explicit Cap(double) {}
  __device__ W operator()(W logit) const { return logit; }
  /// The derivative of the cap at a capped logit.
  __device__ W slope(W) const { return W(1); }
};
/// cap tanh(logit / cap)
template <class W>
struct Cap<W, true> {
  W cap, inverse;
  __device__ explicit Cap(double of) : cap(W(of)), inverse(W(1 / of)) {}
  __device__ W operator()(W logit) const { return cap * hyperbolic_tangent(logit * inverse); }
  __device__ W slope(W capped) const {
    const W t = capped * inverse;
    return W(1) - t * t;
  }
};

/// The number of packs that a thread loads at the same time.
constexpr int kTogether = 4;

/// At most `threads` threads a block, and registers for `blocks` blocks on a multiprocessor.
template <class T, int N, bool gradient, bool capped, int threads, int blocks>
__global__ void __launch_bounds__(threads, blocks)
    cross_entropy(T* logits, const long long* __restrict__ labels, Wide<T>* __restrict__ losses, int width,
                  long long stride, long long ignored, double soft_cap, const double* __restrict__ factor) {
  using W = Wide<T>;
  const Cap<W, capped> cap(soft_cap);
  using Numbers = Pack<T, N>;
  const W lowest = sizeof(W) == 8 ? W(-1.7e308) : W(-3.4e38f);
  T* row = logits + blockIdx.x * stride;
  const long long label = labels[blockIdx.x];
  const bool counts = label != ignored, known = label >= 0 && label < width;
  const int hop = static_cast<int>(blockDim.x) * N, first = static_cast<int>(threadIdx.x) * N;
  const int last = (width + hop * kTogether - 1) / (hop * kTogether) * (hop * kTogether) - hop * kTogether + first;
  // A wrong label gives a loss and gradients that are not numbers. A trap would end every kernel of the process.
  const W of_label = known ? cap(widen(row[label])) : W(nan(""));
  W all = 0;
  if (counts) {
    W top = lowest, sum = 0;
    for (int start = first; start <= last; start += hop * kTogether) {
      Numbers packs[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (start + i * hop < width) packs[i] = Numbers::at(row + start + i * hop);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int column = start + i * hop;
        if (column >= width) continue;
        W values[N];
        packs[i].unpack(values);
        W larger = top;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          values[j] = column + j < width ? cap(values[j]) : lowest;  // beyond the end of the row
          larger = max(larger, values[j]);
        }
        sum *= exponential(top - larger);
        top = larger;
#pragma unroll
        for (int j = 0; j < N; ++j) sum += exponential(values[j] - top);
      }
    }
    const W highest = block_max(top);
    all = highest + log(block_sum(sum * exponential(top - highest)));
    if (!known) all = of_label;
    if (threadIdx.x == 0) losses[blockIdx.x] = all - of_label;
  } else if (threadIdx.x == 0) {
    losses[blockIdx.x] = 0;
  }
  if constexpr (gradient) {
    const W times = factor == nullptr ? W(1) : W(*factor);
    for (int start = last; start >= 0; start -= hop * kTogether) {
      Numbers packs[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (counts && start + i * hop < width) packs[i] = Numbers::at(row + start + i * hop);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int column = start + i * hop;
        if (column >= width) continue;
        W values[N] = {};
        if (counts) {
          packs[i].unpack(values);
#pragma unroll
          for (int j = 0; j < N; ++j) {
            const W logit = cap(values[j]);
            values[j] = exponential(logit - all) * cap.slope(logit) * times;
          }
        }
        store(row + column, values);
      }
    }
    // The thread that stored the label's column stores it again, minus 1. So no number is compared with the label.
    if (known && label / N % blockDim.x == threadIdx.x) {
      const W at_label[1] = {(exponential(of_label - all) - 1) * cap.slope(of_label) * times};
      store(row + label, at_label);
    }
  }
}
