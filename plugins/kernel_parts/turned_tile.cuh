// A matrix in 8 bits with one scale, and its transpose. A block has a tile, which it transposes in shared memory. Needs
// lanes.cuh and to_8_bits.cuh.

constexpr int kThreads = 256;
constexpr int kTileRows = 64, kTileColumns = 128;
// Four bytes more than a column of the tile, so that neighbouring columns start in other banks.
constexpr int kStride = kTileRows + 4;
// Below this a matrix counts as zero, and its scale stays finite.
constexpr float kSmallest = 1e-12f;

/// The columns of a tile one after the other, in shared memory; a word if there is no transpose.
template <bool turns>
constexpr int kTileWords = turns ? kTileColumns * kStride / 4 : 1;

template <int mantissa>
constexpr float kLimit = mantissa == 3 ? 448.0f : 57344.0f;

/// The factor of a matrix, and its scale, which is 1 / factor. With `past`, the parts are of earlier tensors; if they
/// are 0, the scale is 1. Every thread of the block takes part.
template <int mantissa>
__device__ inline float factor_of(const float* __restrict__ parts, int part_count, int past,
                                  float* __restrict__ scale) {
  float largest = 0;
  for (int part = static_cast<int>(threadIdx.x); part < part_count; part += static_cast<int>(blockDim.x))
    largest = max(largest, parts[part]);
  largest = block_max(largest);
  const float factor = past && largest == 0 ? 1.0f : 1.0f / max(largest, kSmallest) * kLimit<mantissa>;
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale = 1.0f / factor;
  return factor;
}

/// Calls each(row in the tile, column in the tile, row, column) for every N neighbours of the block's tile. The number
/// of columns is a multiple of N.
template <int N, class Each>
__device__ inline void each_of_tile(long long rows, long long columns, const Each& each) {
  const long long across = (columns + kTileColumns - 1) / kTileColumns;
  const long long first_row = blockIdx.x / across * kTileRows,
                  first_column = blockIdx.x % across * kTileColumns;
  constexpr int kPacks = kTileColumns / N;
  for (int pack = static_cast<int>(threadIdx.x); pack < kTileRows * kPacks; pack += kThreads) {
    const int row = pack / kPacks, column = pack % kPacks * N;
    if (first_row + row < rows && first_column + column < columns)
      each(row, column, first_row + row, first_column + column);
  }
}

/// In the range of the type: beyond it the largest number, and NaN for an infinity, which must stay visible.
__device__ inline float saturated(float scaled, float x, float limit) {
  if (x - x != 0) return x - x;
  return scaled > limit ? limit : scaled < -limit ? -limit : scaled;
}

/// N neighbours in 8 bits. With `past`, numbers may be beyond the range.
template <int mantissa, int N>
struct alignas(N) Bytes {
  unsigned char numbers[N];
  __device__ Bytes(const float (&some)[N], float factor, int past) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float scaled = __fmul_rn(some[i], factor);
      numbers[i] = to_8_bits<mantissa>(past ? saturated(scaled, some[i], kLimit<mantissa>) : scaled);
    }
  }
  __device__ void put(unsigned char* __restrict__ to) const {
    if constexpr (N == 1)
      *to = numbers[0];
    else
      *reinterpret_cast<typename MoveOf<N>::type*>(to) = *reinterpret_cast<const typename MoveOf<N>::type*>(numbers);
  }
};

/// N neighbours of a matrix to `values` and, if `turns`, to (row, column) of the tile.
template <int mantissa, bool turns, int N>
__device__ inline void put_8_bits(const float (&some)[N], float factor, int past,
                                  unsigned char* __restrict__ values, unsigned int* tile, int row, int column) {
  const Bytes<mantissa, N> out(some, factor, past);
  out.put(values);
  if (!turns) return;
  unsigned char* bytes = reinterpret_cast<unsigned char*>(tile);
#pragma unroll
  for (int i = 0; i < N; ++i) bytes[(column + i) * kStride + row] = out.numbers[i];
}

/// Writes the columns of a block's tile as rows of the transpose.
__device__ inline void write_columns(const unsigned int* tile, unsigned char* __restrict__ transposed,
                                     long long rows, long long columns) {
  const long long across = (columns + kTileColumns - 1) / kTileColumns;
  const long long first_row = blockIdx.x / across * kTileRows,
                  first_column = blockIdx.x % across * kTileColumns;
  __syncthreads();
  constexpr int kWords = kTileRows / 4;
  for (int word = static_cast<int>(threadIdx.x); word < kTileColumns * kWords; word += kThreads) {
    const int column = word / kWords, row = word % kWords * 4;
    if (first_row + row >= rows || first_column + column >= columns) continue;
    *reinterpret_cast<unsigned int*>(transposed + (first_column + column) * rows + first_row + row) =
        tile[(column * kStride + row) / 4];
  }
}
