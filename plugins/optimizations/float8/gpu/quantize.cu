// A matrix in 8 bits (arXiv:2209.05433): one kernel finds the largest value. Another divides the numbers by the scale,
// and writes them row by row and, on request, as the transpose, in one pass. A block has a tile, which it transposes in
// shared memory.
#include "lanes.cuh"
#include "to_8_bits.cuh"

constexpr int kThreads = 256;
constexpr int kTileRows = 64, kTileColumns = 128;
// Four bytes more than a column of the tile, so that neighbouring columns start in other banks.
constexpr int kStride = kTileRows + 4;
// Below this a matrix counts as zero, and its scale stays finite.
constexpr float kSmallest = 1e-12f;

/// Writes the columns of a block's tile, which are in shared memory column by column, as rows of the transpose.
__device__ inline void write_columns(const unsigned int* tile, unsigned char* __restrict__ transposed,
                                     long long first_row, long long first_column, long long rows,
                                     long long columns) {
  __syncthreads();
  constexpr int kWords = kTileRows / 4;
  for (int word = static_cast<int>(threadIdx.x); word < kTileColumns * kWords; word += kThreads) {
    const int column = word / kWords, row = word % kWords * 4;
    if (first_row + row >= rows || first_column + column >= columns) continue;
    *reinterpret_cast<unsigned int*>(transposed + (first_column + column) * rows + first_row + row) =
        tile[(column * kStride + row) / 4];
  }
}

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

/// In the range of the type: beyond it the largest number, and NaN for an infinity, which must stay visible.
__device__ inline float saturated(float scaled, float x, float limit) {
  if (x - x != 0) return x - x;
  return scaled > limit ? limit : scaled < -limit ? -limit : scaled;
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
  __shared__ unsigned int tile[kTileColumns * kStride / 4];
  unsigned char* bytes = reinterpret_cast<unsigned char*>(tile);
  float largest = 0;
  for (int part = static_cast<int>(threadIdx.x); part < part_count; part += kThreads)
    largest = max(largest, parts[part]);
  constexpr float kLimit = mantissa == 3 ? 448.0f : 57344.0f;
  largest = block_max(largest);
  const float factor = past && largest == 0 ? 1.0f : 1.0f / max(largest, kSmallest) * kLimit;
  float of_mine = 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale = 1.0f / factor;

  const long long across = (columns + kTileColumns - 1) / kTileColumns;
  const long long first_row = blockIdx.x / across * kTileRows,
                  first_column = blockIdx.x % across * kTileColumns;
  constexpr int kPacks = kTileColumns / N;
  for (int pack = static_cast<int>(threadIdx.x); pack < kTileRows * kPacks; pack += kThreads) {
    const int row = pack / kPacks, column = pack % kPacks * N;
    if (first_row + row >= rows || first_column + column >= columns) continue;
    float some[N];
    load(x + (first_row + row) * columns + first_column + column, some);
    const long long at = (first_row + row) * all_columns + first_column + column;
    alignas(8) unsigned char out[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float scaled = __fmul_rn(some[i], factor);
      out[i] = to_8_bits<mantissa>(past ? saturated(scaled, some[i], kLimit) : scaled);
    }
    if (seen != nullptr) of_mine = max(of_mine, largest_of(some));
    if constexpr (N == 1)
      values[at] = out[0];
    else
      *reinterpret_cast<typename MoveOf<N>::type*>(values + at) =
          *reinterpret_cast<const typename MoveOf<N>::type*>(out);
    if (!turns) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) bytes[(column + i) * kStride + row] = out[i];
  }
  if (seen != nullptr) note_largest<float>(seen, of_mine);
  if (!turns) return;
  write_columns(tile, transposed, first_row, first_column, rows, columns);
}

/// (rows, columns) of single bytes to (columns, rows); both are multiples of 16.
__global__ void transpose(const unsigned char* __restrict__ values, unsigned char* __restrict__ transposed,
                          long long rows, long long columns) {
  __shared__ unsigned int tile[kTileColumns * kStride / 4];
  unsigned char* bytes = reinterpret_cast<unsigned char*>(tile);
  const long long across = (columns + kTileColumns - 1) / kTileColumns;
  const long long first_row = blockIdx.x / across * kTileRows,
                  first_column = blockIdx.x % across * kTileColumns;
  constexpr int kPacks = kTileColumns / 8;
  for (int pack = static_cast<int>(threadIdx.x); pack < kTileRows * kPacks; pack += kThreads) {
    const int row = pack / kPacks, column = pack % kPacks * 8;
    if (first_row + row >= rows || first_column + column >= columns) continue;
    alignas(8) unsigned char some[8];
    *reinterpret_cast<uint2*>(some) =
        *reinterpret_cast<const uint2*>(values + (first_row + row) * columns + first_column + column);
#pragma unroll
    for (int i = 0; i < 8; ++i) bytes[(column + i) * kStride + row] = some[i];
  }
  write_columns(tile, transposed, first_row, first_column, rows, columns);
}
