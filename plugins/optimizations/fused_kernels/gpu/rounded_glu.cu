// Gated linear units whose results are only factors of products in 8 bits: they are written in 8 bits with a known
// scale, row by row and as the transpose. They are rounded to T before, so the bits are those of a unit that writes T
// and of a kernel that quantizes it.
#include "lanes.cuh"
#include "sigmoid.cuh"
#include "to_8_bits.cuh"
#include "turned_tile.cuh"
#include "rounded.cuh"
#include "units.cuh"

constexpr int kForwardRows = 128, kBackwardRows = 64;  // of a tile; the backward has two

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
