// Gated linear units whose results are only factors of products in 8 bits: they are written in 8 bits with a known
// scale, row by row and as the transpose. They are rounded to T before, so the bits are those of a unit that writes T
// and of a kernel that quantizes it.
#include "lanes.cuh"
#include "sigmoid.cuh"
#include "to_8_bits.cuh"
#include "turned_tile.cuh"
#include "units.cuh"

constexpr int kForwardRows = 128, kBackwardRows = 64;  // of a tile; the backward has two

/// A matrix (rows, columns). Its parts of earlier largest values give the scale. `seen` is raised to the largest values
/// of this matrix. The rows of `values` are all_columns apart; `transposed` is (columns, rows).
struct Rounded {
  const float* past;
  float* seen;
  unsigned char *values, *transposed;
  float* scale;
  long long past_count, rows, columns, all_columns;
};

/// Returns the largest absolute value, as T.
template <class T, int mantissa, int height, bool turns, int N>
__device__ inline float put_rounded(float (&some)[N], float factor, unsigned char* __restrict__ values,
                                    const Spot<height, turns>& spot, int tile = 0) {
#pragma unroll
  for (int i = 0; i < N; ++i) some[i] = widen(narrow<T>(some[i]));
  put_8_bits<mantissa>(some, factor, 1, values, spot, tile);
  return largest_of(some);
}

template <class T, int N, bool kGelu, int mantissa, bool turns>
__global__ void rounded_glu_forward(const T* __restrict__ gate, const T* __restrict__ up, Rounded to) {
  __shared__ unsigned int tile[kTileWords<kForwardRows, turns>];
  const float factor = factor_of<mantissa>(to.past, static_cast<int>(to.past_count), 1, to.scale);
  float most = 0;
  each_of_tile<N, kForwardRows, turns>(
      to.rows, to.columns, tile, [&](long long row, long long column, const Spot<kForwardRows, turns>& spot) {
        const long long at = row * to.columns + column;
        float x[N], other[N];
        load(gate + at, x);
        load(up + at, other);
        glu<kGelu>(x, other);
        most = max(most, put_rounded<T, mantissa>(x, factor, to.values + row * to.all_columns + column, spot));
      });
  note_largest<float>(to.seen, most);
  if (turns) write_columns<kForwardRows>(tile, to.transposed, to.rows, to.columns);
}

/// The gradient of up is beside the gradient of the gate, and below it in the transpose.
template <class T, int N, bool kGelu, int mantissa, bool turns>
__global__ void rounded_glu_backward(const T* __restrict__ gate, const T* __restrict__ up,
                                     const T* __restrict__ out_gradient, Rounded to) {
  __shared__ unsigned int tiles[2 * kTileWords<kBackwardRows, turns>];
  const float factor = factor_of<mantissa>(to.past, static_cast<int>(to.past_count), 1, to.scale);
  float most = 0;
  each_of_tile<N, kBackwardRows, turns>(
      to.rows, to.columns, tiles, [&](long long row, long long column, const Spot<kBackwardRows, turns>& spot) {
        const long long at = row * to.columns + column;
        float x[N], other[N], g[N];
        load(gate + at, x);
        load(up + at, other);
        load(out_gradient + at, g);
        glu_gradients<kGelu>(x, other, g);
        unsigned char* values = to.values + row * to.all_columns + column;
        most = max(most, put_rounded<T, mantissa>(g, factor, values, spot));
        most = max(most, put_rounded<T, mantissa>(other, factor, values + to.columns, spot, 1));
      });
  note_largest<float>(to.seen, most);
  if (!turns) return;
  write_columns<kBackwardRows>(tiles, to.transposed, to.rows, to.columns);
  write_columns<kBackwardRows>(tiles + kTileWords<kBackwardRows, turns>, to.transposed + to.columns * to.rows, to.rows, to.columns);
}
