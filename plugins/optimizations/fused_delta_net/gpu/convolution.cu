// SiLU of a causal convolution of each channel. A thread walks along kRun positions of N neighbouring channels and
// keeps the last `taps` positions in registers, so memory is read once.
#include "lanes.cuh"
#include "sigmoid.cuh"

constexpr int kThreads = 128;
constexpr int kRun = 64;

/// Has the same layout as in kernels.h.
struct Convolution {
  unsigned char type;
  const void *x, *weight;
  const int* documents;
  long long batch, positions, channels, taps;
};

/// The last positions that a thread has seen. They go round in `taps` slots, so no number moves: a loop over positions
/// is unrolled by `taps`, and each index of a slot is known to the compiler.
template <class T, int N, int taps>
struct Walk {
  using W = Wide<T>;
  const Convolution& p;
  long long run;          ///< counted over the batch
  long long first, last;  ///< its own positions: from `first` to before `last`
  long long row;          ///< of position 0, in elements
  long long channel;
  const int* documents;
  W weights[taps][N];  ///< [back]: for the position `back` before
  W seen[taps][N] = {};
  int ids[taps] = {};

  __device__ Walk(const Convolution& given, long long index) : p(given) {
    const long long packs = p.channels / N, runs = (p.positions + kRun - 1) / kRun;
    run = index / packs;
    channel = index % packs * N;
    first = run % runs * kRun;
    last = first + kRun < p.positions ? first + kRun : p.positions;
    row = run / runs * p.positions * p.channels + channel;
    documents = p.documents == nullptr ? nullptr : p.documents + run / runs * p.positions;
#pragma unroll
    for (int back = 0; back < taps; ++back)
      load(static_cast<const W*>(p.weight) + (taps - 1 - back) * p.channels + channel, weights[back]);
  }
  __device__ static constexpr int slot_before(int slot, int back) { return (slot - back + taps) % taps; }
  __device__ long long place(long long position) const { return row + position * p.channels; }
  __device__ void see(int slot, long long position) {
    if (position < 0 || position >= p.positions) {
#pragma unroll
      for (int i = 0; i < N; ++i) seen[slot][i] = 0;
      return;
    }
    load(static_cast<const T*>(p.x) + place(position), seen[slot]);
    ids[slot] = documents == nullptr ? 0 : documents[position];
  }
  /// The sums at the position in the slot.
  __device__ void sums(int slot, W (&to)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = 0;
#pragma unroll
    for (int back = 0; back < taps; ++back) {
      const int other = slot_before(slot, back);
      if (ids[other] != ids[slot]) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) to[i] += weights[back][i] * seen[other][i];
    }
  }
};

/// `threads`: with work.
template <class T, int N, int taps>
__global__ void __launch_bounds__(kThreads) convolution_forward(Convolution p, T* __restrict__ out, long long threads) {
  using W = Wide<T>;
  const long long index = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= threads) return;
  Walk<T, N, taps> walk(p, index);
  for (long long begin = walk.first - (taps - 1); begin < walk.last; begin += taps)
#pragma unroll
    for (int slot = 0; slot < taps; ++slot) {
      const long long s = begin + slot;
      if (s >= walk.last) continue;
      walk.see(slot, s);
      if (s < walk.first) continue;
      W sums[N];
      walk.sums(slot, sums);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] *= sigmoid(sums[i]);
      store(out + walk.place(s), sums);
    }
}

/// Each run writes its part of the weight's gradient, (taps, channels). The gradients of the sums behind a run are
/// computed again.
template <class T, int N, int taps>
__global__ void __launch_bounds__(kThreads)
    convolution_backward(Convolution p, const T* __restrict__ out_gradient, T* __restrict__ x_gradient,
                         Wide<T>* __restrict__ weight_parts, long long threads) {
  using W = Wide<T>;
  const long long index = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= threads) return;
  Walk<T, N, taps> walk(p, index);
  W of_sums[taps][N] = {}, of_weights[taps][N] = {};
  for (long long begin = walk.first - (taps - 1); begin < walk.last + taps - 1; begin += taps)
#pragma unroll
    for (int slot = 0; slot < taps; ++slot) {
      const long long s = begin + slot, done = s - (taps - 1);
      if (done >= walk.last) continue;
      walk.see(slot, s);
#pragma unroll
      for (int i = 0; i < N; ++i) of_sums[slot][i] = 0;
      if (s >= walk.first && s < p.positions) {
        W sums[N], g[N];
        walk.sums(slot, sums);
        load(out_gradient + walk.place(s), g);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const W y = sigmoid(sums[i]);
          of_sums[slot][i] = g[i] * y * (W(1) + sums[i] * (W(1) - y));
        }
        if (s < walk.last) {
#pragma unroll
          for (int back = 0; back < taps; ++back) {
            const int other = walk.slot_before(slot, back);
            if (walk.ids[other] != walk.ids[slot]) continue;
#pragma unroll
            for (int i = 0; i < N; ++i) of_weights[back][i] += of_sums[slot][i] * walk.seen[other][i];
          }
        }
      }
      if (done < walk.first) continue;
      const int here = walk.slot_before(slot, taps - 1);
      W sums[N] = {};
#pragma unroll
      for (int back = 0; back < taps; ++back) {
        const int other = walk.slot_before(slot, taps - 1 - back);
        if (walk.ids[other] != walk.ids[here]) continue;
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] += walk.weights[back][i] * of_sums[other][i];
      }
      store(x_gradient + walk.place(done), sums);
    }
#pragma unroll
  for (int back = 0; back < taps; ++back)
    store(weight_parts + (walk.run * taps + taps - 1 - back) * p.channels + walk.channel, of_weights[back]);
}

/// gradient (channels, taps) = the sum of parts (runs, taps, channels): `lines` threads a number, then their sums,
/// always in the same order.
template <class W, class T, int columns, int lines>
__global__ void sum_weight_parts(const W* __restrict__ parts, T* __restrict__ gradient, long long runs,
                                 long long channels, long long taps) {
  __shared__ double sums[lines][columns];
  const long long size = taps * channels, column = static_cast<long long>(blockIdx.x) * columns + threadIdx.x;
  double sum = 0;
  if (column < size)
    for (long long run = threadIdx.y; run < runs; run += lines) sum += static_cast<double>(parts[run * size + column]);
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= size) return;
  for (int i = 1; i < lines; ++i) sum += sums[i][threadIdx.x];
  gradient[column % channels * taps + column / channels] = narrow<T>(static_cast<Wide<T>>(sum));
}
