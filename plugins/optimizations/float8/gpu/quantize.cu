// A matrix in 8 bits (arXiv:2209.05433): one kernel finds the largest value. Another divides the numbers by the scale,
// and writes them row by row and, on request, as the transpose, in one pass.
#include "lanes.cuh"
#include "to_8_bits.cuh"
#include "turned_tile.cuh"

constexpr int kTileRows = 128;

/// The largest |x| of each block. `count` is a multiple of N.
template <class T, int N>
__global__ void largest_parts(const T* __restrict__ x, float* __restrict__ parts, long long count) {
  float largest = 0;
  const long long step = static_cast<long long>(gridDim.x) * kThreads * N;
  for (long long at = (static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x) * N; at < count;
       at += step) {
    float some[N];
    load(x + at, some);
    largest = max(largest, largest_of(some));
  }
  largest = block_max(largest);
  if (threadIdx.x == 0) parts[blockIdx.x] = largest;
}

/// x (rows, columns) to values (rows, columns), whose rows are all_columns apart, and, if `turns`, to transposed
/// (columns, rows). The number of columns is a multiple of 16, and if `turns`, so is the number of rows. values and
/// transposed times scale are x. With `past`, the parts are of earlier tensors; if they are 0, the scale is 1. `seen`,
/// if not null, is raised to the largest values of this x.
template <class T, int N, int mantissa, bool turns>
__global__ void quantize(const T* __restrict__ x, const float* __restrict__ parts, int part_count, int past,
                         float* __restrict__ seen, unsigned char* __restrict__ values,
                         unsigned char* __restrict__ transposed, float* __restrict__ scale, long long rows,
                         long long columns, long long all_columns) {
  __shared__ unsigned int tile[kTileWords<kTileRows, turns>];
  const float factor = factor_of<mantissa>(parts, part_count, past, scale);
  float of_mine = 0;
  each_of_tile<N, kTileRows, turns>(
      rows, columns, tile, [&](long long row, long long column, const Spot<kTileRows, turns>& spot) {
        float some[N];
        load(x + row * columns + column, some);
        if (seen != nullptr) of_mine = max(of_mine, largest_of(some));
        put_8_bits<mantissa>(some, factor, past, values + row * all_columns + column, spot);
      });
  if (seen != nullptr) note_largest<float>(seen, of_mine);
  if (turns) write_columns<kTileRows>(tile, transposed, rows, columns);
}

/// (rows, columns) of single bytes to (columns, rows); both are multiples of 16.
__global__ void transpose(const unsigned char* __restrict__ values, unsigned char* __restrict__ transposed,
                          long long rows, long long columns) {
  __shared__ unsigned int tile[kTileWords<kTileRows, true>];
  each_of_tile<8, kTileRows, true>(
      rows, columns, tile, [&](long long row, long long column, const Spot<kTileRows, true>& spot) {
        alignas(8) unsigned char some[8];
        *reinterpret_cast<uint2*>(some) = *reinterpret_cast<const uint2*>(values + row * columns + column);
        spot.keep(some);
      });
  write_columns<kTileRows>(tile, transposed, rows, columns);
}
