// RMSNorm and residual + RMSNorm whose result is only a factor of products in 8 bits: it is written in e4m3 with a
// known scale, row by row and as the transpose. The bits are those of norm.cu in bf16 and of a kernel that quantizes it.
#include "lanes.cuh"
#include "to_8_bits.cuh"
#include "turned_tile.cuh"
#include "norm_row.cuh"
#include "rounded.cuh"

#ifdef __CUDA_ARCH__
extern __shared__ uint4 block_memory[];
#endif

/// A block has `tile_rows` rows, one after the other. If `turns`, it keeps them in shared memory. They are a word
/// longer than their numbers, so that the threads of a warp read a tile's columns from separate banks. The numbers of
/// rows and of columns are multiples of 16.
template <class S, class D, int N, int steps, int threads, bool adds, int tile_rows, bool turns>
__global__ void __launch_bounds__(threads, 1)
    rounded_norm(const S* __restrict__ x, const D* __restrict__ delta, const float* __restrict__ weight,
                 S* __restrict__ sum, float* __restrict__ rstd, double eps, Rounded to) {
  constexpr int kMantissa = 3;
  unsigned int* const tile = reinterpret_cast<unsigned int*>(block_memory);
  const int words = static_cast<int>(to.columns) / 4, stride = words + 1;
  const long long first = static_cast<long long>(blockIdx.x) * tile_rows, left = to.rows - first;
  const int rows = left < tile_rows ? static_cast<int>(left) : tile_rows;
  const float factor = factor_of<kMantissa>(to.past, static_cast<int>(to.past_count), 1, to.scale);
  float most = 0;
  for (int row = 0; row < rows; ++row) {
    unsigned char* const values = to.values + (first + row) * to.all_columns;
    norm_row<N, steps, threads, adds>(x, delta, weight, sum, rstd, first + row, to.columns, eps,
                                      [&](int column, float(&normed)[N]) {
                                        most = max(most, round_to<__nv_bfloat16>(normed));
                                        const Bytes<kMantissa, N> bytes(normed, factor, 1);
                                        bytes.put(values + column);
                                        if (!turns) return;
#pragma unroll
                                        for (int i = 0; i < N / 4; ++i)
                                          tile[row * stride + column / 4 + i] =
                                              reinterpret_cast<const unsigned int*>(bytes.numbers)[i];
                                      });
  }
  note_largest<float>(to.seen, most);
  if (!turns) return;
  __syncthreads();
  // A thread turns 4 rows and columns. Neighbours have the rows of the same columns, so a warp writes whole sectors.
  constexpr int kDown = tile_rows / 4;
  for (int part = static_cast<int>(threadIdx.x); part < kDown * words; part += threads) {
    const int row = part % kDown * 4, word = part / kDown;
    if (row >= rows) continue;
    unsigned int across[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) across[i] = tile[(row + i) * stride + word];
#pragma unroll
    for (int column = 0; column < 4; ++column) {
      unsigned int down = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) down |= (across[i] >> 8 * column & 0xFFu) << 8 * i;
      *reinterpret_cast<unsigned int*>(to.transposed + (4 * word + column) * to.rows + first + row) = down;
    }
  }
}
