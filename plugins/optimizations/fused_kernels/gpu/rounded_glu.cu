// Gated linear units whose results are only factors of products in 8 bits: they are written in 8 bits with a known
// scale, row by row and as the transpose. They are rounded to T before, so the bits are those of a unit that writes T
// and of a kernel that quantizes it.
#include "lanes.cuh"
#include "sigmoid.cuh"
#include "to_8_bits.cuh"
#include "turned_tile.cuh"
#include "rounded.cuh"
#include "units.cuh"

template <class T, int N, bool kGelu, int mantissa, bool turns>
__global__ void rounded_glu_forward(const T* __restrict__ gate, const T* __restrict__ up, Rounded to) {
  __shared__ unsigned int tile[kTileWords<turns>];
  const float factor = factor_of<mantissa>(to.past, static_cast<int>(to.past_count), 1, to.scale);
  float most = 0;
  each_of_tile<N>(to.rows, to.columns, [&](int row, int column, long long in_row, long long in_column) {
    const long long at = in_row * to.columns + in_column;
    float x[N], other[N];
    load(gate + at, x);
    load(up + at, other);
    glu<kGelu>(x, other);
    most = max(most, put_rounded<T, mantissa, turns>(
                         x, factor, to.values + in_row * to.all_columns + in_column, tile, row, column));
  });
  note_largest<float>(to.seen, most);
  if (turns) write_columns(tile, to.transposed, to.rows, to.columns);
}

/// The gradient of up is beside the gradient of the gate, and below it in the transpose.
template <class T, int N, bool kGelu, int mantissa, bool turns>
__global__ void rounded_glu_backward(const T* __restrict__ gate, const T* __restrict__ up,
                                     const T* __restrict__ out_gradient, Rounded to) {
  __shared__ unsigned int of_gate[kTileWords<turns>], of_up[kTileWords<turns>];
  const float factor = factor_of<mantissa>(to.past, static_cast<int>(to.past_count), 1, to.scale);
  float most = 0;
  each_of_tile<N>(to.rows, to.columns, [&](int row, int column, long long in_row, long long in_column) {
    const long long at = in_row * to.columns + in_column;
    float x[N], other[N], g[N];
    load(gate + at, x);
    load(up + at, other);
    load(out_gradient + at, g);
    glu_gradients<kGelu>(x, other, g);
    unsigned char* values = to.values + in_row * to.all_columns + in_column;
    most = max(most, put_rounded<T, mantissa, turns>(g, factor, values, of_gate, row, column));
    most = max(most, put_rounded<T, mantissa, turns>(other, factor, values + to.columns, of_up, row, column));
  });
  note_largest<float>(to.seen, most);
  if (!turns) return;
  write_columns(of_gate, to.transposed, to.rows, to.columns);
  write_columns(of_up, to.transposed + to.columns * to.rows, to.rows, to.columns);
}
