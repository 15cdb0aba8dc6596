// A matrix in e4m3 with a scale for each group of 128 numbers (arXiv:2412.19437, section 3.3): groups of rows
// and, for the transpose, of columns, or blocks of 128 rows and columns. A block of threads has 128 rows and
// columns, in which every group is whole. So one kernel finds the largest values and rounds: its second read
// comes from the cache.
#include "lanes.cuh"
#include "to_8_bits.cuh"
#include "turned_tile.cuh"

constexpr int kGroup = 128;
static_assert(kTileColumns == kGroup);

/// The power of two that brings `largest` nearest below the largest number of e4m3. It rounds nothing.
__device__ inline float factor_of(float largest) {
  constexpr int kExponent = 0x7F800000;
  return __int_as_float(__float_as_int(1.0f / max(largest, kSmallest) * 448.0f) & kExponent);
}

/// x (rows, columns) to values (rows, columns), whose rows are all_columns apart. With `blocks` a scale is of
/// a block; the scales of a row of blocks are `padded` apart. Otherwise the scales are (columns / 128, rows);
/// if `turns`, transposed (columns, rows) has its own scales (rows / 128, all_columns). Rows and columns are
/// multiples of 128.
template <class T, int N, bool blocks, bool turns>
__global__ void quantize_groups(const T* __restrict__ x, unsigned char* __restrict__ values,
                                float* __restrict__ scales, unsigned char* __restrict__ transposed,
                                float* __restrict__ turned_scales, long long rows, long long columns,
                                long long all_columns, long long padded) {
  __shared__ unsigned int tile[kTileWords<kGroup, turns>];
  __shared__ int of_rows[kGroup],
      of_columns[kGroup];  // largest values: not negative, so ordered like their bits
  constexpr int kPacks = kGroup / N, kRows = kThreads / kPacks, kLanes = kPacks < 32 ? kPacks : 32;
  // Where the largest value of a column is. Neighbouring threads, whose columns are N apart, have neighbouring words.
  const auto place = [](int column) { return column % N * kPacks + column / N; };
  const int thread = static_cast<int>(threadIdx.x), first = thread / kPacks, column = thread % kPacks * N;
  const long long across = columns / kGroup, tile_row = blockIdx.x / across,
                  tile_column = blockIdx.x % across;
  const T* from = x + tile_row * kGroup * columns + tile_column * kGroup + column;
  if (thread < kGroup) of_rows[thread] = of_columns[thread] = 0;
  __syncthreads();

  float some[N], of_mine[N] = {};
  float of_block = 0;
  for (int row = first; row < kGroup; row += kRows) {
    load(from + row * columns, some);
    float largest = largest_of(some);
#pragma unroll
    for (int i = 0; i < N; ++i) of_mine[i] = max(of_mine[i], max(some[i], -some[i]));
    if (blocks) {
      of_block = max(of_block, largest);
      continue;
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2)
      largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    if (thread % kLanes == 0) atomicMax(of_rows + row, __float_as_int(largest));
  }
  if (turns) {
#pragma unroll
    for (int i = 0; i < N; ++i) atomicMax(of_columns + place(column + i), __float_as_int(of_mine[i]));
  }
  if (blocks) of_block = factor_of(block_max(of_block));
  __syncthreads();
  if (blocks && thread == 0) scales[tile_row * padded + tile_column] = 1.0f / of_block;
  if (!blocks && thread < kGroup)
    scales[tile_column * rows + tile_row * kGroup + thread] =
        1.0f / factor_of(__int_as_float(of_rows[thread]));
  if (turns && thread < kGroup)
    turned_scales[tile_row * all_columns + tile_column * kGroup + thread] =
        1.0f / factor_of(__int_as_float(of_columns[place(thread)]));

#pragma unroll
  for (int i = 0; i < N; ++i) of_mine[i] = turns ? factor_of(__int_as_float(of_columns[place(column + i)])) : 0;
  // A thread has the same columns in all rows.
  each_of_tile<N, kGroup, turns>(
      rows, columns, tile, [&](long long row, long long in_row, const Spot<kGroup, turns>& spot) {
        load(x + row * columns + in_row, some);
        const float factor = blocks ? of_block : factor_of(__int_as_float(of_rows[spot.row]));
        put_8_bits<3>(some, factor, 0, values + row * all_columns + in_row, Spot<kGroup, false>{});
        if (!turns) return;
        unsigned char turned[N];
#pragma unroll
        for (int i = 0; i < N; ++i) turned[i] = to_8_bits<3>(__fmul_rn(some[i], of_mine[i]));
        spot.keep(turned);
      });
  if (turns) write_columns<kGroup>(tile, transposed, rows, columns);
}
