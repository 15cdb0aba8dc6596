// Products of small matrices in shared memory. A warp computes a tile of the result, whose numbers stay in its
// registers. For bf16 and fp16 tensor cores multiply in TF32 (11 bits of a number, sums in fp32), so the numbers in
// shared memory are fp32 for every type but fp64. fp32 and fp64 are multiplied in full.
#include "lanes.cuh"

constexpr int kThreads = 128, kWarps = kThreads / 32;
/// Columns of a tile, and of the slices in which wide matrices are taken.
constexpr int kSlice = 32;
/// Rows in shared memory are longer than their numbers by this, so that neighbours in a column are in separate banks.
constexpr int kGap = 4;
constexpr int kSliceRow = kSlice + kGap;

#ifdef __CUDA_ARCH__
extern __shared__ uint4 block_memory[];

__device__ inline unsigned int rounded_to_tf32(float x) {
  unsigned int bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
/// sum (16, 8) += a (16, 8) b (8, 8). With g = lane / 4 and t = lane % 4 a lane has a at (g, t), (g + 8, t), (g, t +
/// 4), (g + 8, t + 4); b at (t, g), (t + 4, g); sum at (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
__device__ inline void multiply_tf32(float* sum, const unsigned int (&a)[4], const unsigned int (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

/// Shared memory of the block, handed out piece by piece. The host asks for the same pieces.
template <class W>
struct SharedMemory {
  W* next = reinterpret_cast<W*>(block_memory);
  __device__ W* take(int count) {
    W* piece = next;
    next += count;
    return piece;
  }
};

/// A matrix by its strides: (i, k) is at data[i * row + k * column].
template <class W>
struct Strided {
  const W* data;
  int row, column = 1;
  __device__ W at(int i, int k) const { return data[i * row + k * column]; }
  /// The matrix from row i on.
  __device__ Strided from_row(int i) const { return {data + i * row, row, column}; }
  __device__ Strided from_column(int k) const { return {data + k * column, row, column}; }
  __device__ Strided transposed() const { return {data, column, row}; }
};

/// (kRows, kSlice) numbers of a matrix; a lane has kRows of them.
template <class T, int kRows>
struct Tile {
  using W = Wide<T>;
  static constexpr bool kTensorCores = sizeof(T) == 2;
  static constexpr int kAcross = 8;  ///< lanes in a row without tensor cores
  W sum[kRows] = {};

  /// Place of sum[i].
  __device__ static int row(int i) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return kTensorCores ? i / 16 * 16 + i % 4 / 2 * 8 + lane / 4 : i / 4 * 4 + lane / kAcross;
  }
  __device__ static int column(int i) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return kTensorCores ? i % 16 / 4 * 8 + lane % 4 * 2 + i % 2 : i % 4 * 8 + lane % kAcross;
  }
  /// body(row, column, number)
  template <class Body>
  __device__ void each(const Body& body) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) body(row(i), column(i), sum[i]);
  }
  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) sum[i] = 0;
  }

  /// Adds A B for A (kRows, depth) and B (depth, kSlice). `depth` is a multiple of 8.
  __device__ void add(Strided<W> a, Strided<W> b, int depth) {
    if constexpr (kTensorCores)
      add_by_tensor_cores(a, b, depth);
    else
      add_in_full(a, b, depth);
  }

 private:
  __device__ void add_by_tensor_cores(const Strided<W>& a, const Strided<W>& b, int depth) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    for (int k = 0; k < depth; k += 8) {
      unsigned int right[kSlice / 8][2];
#pragma unroll
      for (int n = 0; n < kSlice / 8; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half) right[n][half] = rounded_to_tf32(b.at(k + t + half * 4, n * 8 + g));
#pragma unroll
      for (int m = 0; m < kRows / 16; ++m) {
        unsigned int left[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) left[i] = rounded_to_tf32(a.at(m * 16 + g + i % 2 * 8, k + t + i / 2 * 4));
#pragma unroll
        for (int n = 0; n < kSlice / 8; ++n) multiply_tf32(sum + m * 16 + n * 4, left, right[n]);
      }
    }
  }
  __device__ void add_in_full(const Strided<W>& a, const Strided<W>& b, int depth) {
    const int lane = static_cast<int>(threadIdx.x) % 32, down = lane / kAcross, across = lane % kAcross;
#pragma unroll 4
    for (int k = 0; k < depth; ++k) {
      W right[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) right[n] = b.at(k, n * 8 + across);
#pragma unroll
      for (int m = 0; m < kRows / 4; ++m) {
        const W left = a.at(m * 4 + down, k);
#pragma unroll
        for (int n = 0; n < 4; ++n) sum[m * 4 + n] += left * right[n];
      }
    }
  }
};

/// Calls body(tile, first row) for the tiles of a (rows, kSlice) matrix, each by one warp.
template <class T, int kRows, class Body>
__device__ inline void each_tile(int rows, const Body& body) {
  for (int row = static_cast<int>(threadIdx.x) / 32 * kRows; row < rows; row += kWarps * kRows) {
    Tile<T, kRows> tile;
    body(tile, row);
  }
}

/// Neighbours a load in the type of the arithmetic, if N of T are loaded together.
template <class W, int N>
constexpr int kWideLanes = N == 1 ? 1 : 16 / static_cast<int>(sizeof(W));

/// Puts neighbours into shared memory in as few instructions as possible.
template <int N, class W>
__device__ inline void put_shared(W* to, const W (&from)[N]) {
  using Numbers = Pack<W, N>;
  const Numbers pack = Numbers::of(from);
#pragma unroll
  for (int i = 0; i < Numbers::kMoves; ++i) reinterpret_cast<typename Numbers::Move*>(to)[i] = pack.moves[i];
}

/// Loads (count, width) into `rows` rows of shared memory, which become 0 beyond. Each row is multiplied by
/// factor(row). N neighbours a load.
template <int N, class T, class Factor>
__device__ inline void load_rows(const T* from, long long stride, int count, int width, Wide<T>* to, int row, int rows,
                                 int columns, const Factor& factor) {
  using W = Wide<T>;
  const int packs = columns / N;
#pragma unroll 4  // loads start before the thread waits for the first one
  for (int i = static_cast<int>(threadIdx.x); i < rows * packs; i += kThreads) {
    const int r = i / packs, c = i % packs * N;
    W numbers[N] = {};
    if (r < count && c < width) {
      load(from + r * stride + c, numbers);
      const W scale = factor(r);
#pragma unroll
      for (int j = 0; j < N; ++j) numbers[j] *= scale;
    }
    put_shared(to + r * row + c, numbers);
  }
}
template <int N, class T>
__device__ inline void load_rows(const T* from, long long stride, int count, int width, Wide<T>* to, int row, int rows,
                                 int columns) {
  load_rows<N>(from, stride, count, width, to, row, rows, columns, [](int) { return Wide<T>(1); });
}

/// Stores (count, width) from shared memory.
template <int N, class T>
__device__ inline void store_rows(const Wide<T>* from, int row, int count, int width, T* to, long long stride) {
  const int packs = (width + N - 1) / N;
  for (int i = static_cast<int>(threadIdx.x); i < count * packs; i += kThreads) {
    const int r = i / packs, c = i % packs * N;
    Wide<T> numbers[N];
    load(from + r * row + c, numbers);
    store(to + r * stride + c, numbers);
  }
}
