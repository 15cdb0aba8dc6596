// A matrix in 8 bits with one scale, and its transpose. A block has a tile of `height` rows, which it transposes in
// shared memory. Needs lanes.cuh and to_8_bits.cuh.

constexpr int kThreads = 256;
constexpr int kTileColumns = 128;
// Below this a matrix counts as zero, and its scale stays finite.
constexpr float kSmallest = 1e-12f;

/// The columns of a tile one after the other, in shared memory; a word if there is no transpose.
template <int height, bool turns>
constexpr int kTileWords = turns ? kTileColumns * (height + 1) / 4 : 1;

/// The byte of a number. After every fourth column four bytes are left out, so a warp writes to separate banks, in
/// columns 4 or 8 apart, and reads from separate ones, in a column of 128 rows or in two of 64.
template <int height>
__device__ inline int place_of(int column, int row) {
  return column * height + column / 4 * 4 + row;
}

/// Where the tile of a block begins.
struct Corner {
  long long row, column;
  __device__ Corner(long long columns, int height) {
    const long long across = (columns + kTileColumns - 1) / kTileColumns;
    row = blockIdx.x / across * height, column = blockIdx.x % across * kTileColumns;
  }
};

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

/// A place in the tiles of a block.
template <int height, bool turns>
struct Spot {
  unsigned int* tiles;
  int row, column;
  /// Puts N neighbours in 8 bits into a tile if `turns`.
  template <int N>
  __device__ void keep(const unsigned char (&some)[N], int tile = 0) const {
    if (!turns) return;
    unsigned char* first = reinterpret_cast<unsigned char*>(tiles + tile * kTileWords<height, turns>) +
                           place_of<height>(column, row);
#pragma unroll
    for (int i = 0; i < N; ++i) first[place_of<height>(i, 0)] = some[i];  // `column` is a multiple of N
  }
};

/// Calls each(row, column, spot) for every N neighbours of the block's tile. The number of columns is a multiple of N.
template <int N, int height, bool turns, class Each>
__device__ inline void each_of_tile(long long rows, long long columns, unsigned int* tiles, const Each& each) {
  const Corner corner(columns, height);
  constexpr int kPacks = kTileColumns / N;
  for (int pack = static_cast<int>(threadIdx.x); pack < height * kPacks; pack += kThreads) {
    const Spot<height, turns> spot{tiles, pack / kPacks, pack % kPacks * N};
    const long long row = corner.row + spot.row, column = corner.column + spot.column;
    if (row < rows && column < columns) each(row, column, spot);
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
    using Move = typename MoveOf<N>::type;
    *reinterpret_cast<Move*>(to) = *reinterpret_cast<const Move*>(numbers);
  }
};

/// N neighbours of a matrix to `values` and to a tile. With `past`, numbers may be beyond the range.
template <int mantissa, int height, bool turns, int N>
__device__ inline void put_8_bits(const float (&some)[N], float factor, int past, unsigned char* __restrict__ values,
                                  const Spot<height, turns>& spot, int tile = 0) {
  const Bytes<mantissa, N> out(some, factor, past);
  out.put(values);
  spot.keep(out.numbers, tile);
}

/// Writes the columns of a block's tile as rows of the transpose.
template <int height>
__device__ inline void write_columns(const unsigned int* tile, unsigned char* __restrict__ transposed,
                                     long long rows, long long columns) {
  const Corner corner(columns, height);
  constexpr int kWords = height / 4;
  __syncthreads();
  for (int word = static_cast<int>(threadIdx.x); word < kTileColumns * kWords; word += kThreads) {
    const int column = word / kWords, row = word % kWords * 4;
    if (corner.row + row >= rows || corner.column + column >= columns) continue;
    *reinterpret_cast<unsigned int*>(transposed + (corner.column + column) * rows + corner.row + row) =
        tile[place_of<height>(column, row) / 4];
  }
}
