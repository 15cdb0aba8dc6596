// The forward of the gated delta rule in three phases, as flash-linear-attention has them: squares of all chunks,
// states from chunk to chunk, outputs of all chunks. Letters as in chunk.cuh.
#include "chunk.cuh"

/// The factors that give rows of queries and keys their lengths. A warp takes a row (B, G, S).
template <class T>
__global__ void lengths(DeltaRule in, DeltaRuleWorkspace w, long long rows) {
  using W = Wide<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const long long known = row < rows ? row : rows - 1, head = known / in.positions % in.key_heads;
  const long long batch = known / in.positions / in.key_heads, position = known % in.positions;
  const auto factor = [&](const Rows& of, W length) {
    const T* numbers = static_cast<const T*>(of.data) + batch * of.batch + head * of.head + position * of.token;
    W squares = 0;
    for (int i = lane; i < in.key_width; i += 32) {
      const W x = widen(numbers[i]);
      squares += x * x;
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    return length / sqrt(squares + W(1e-6));  // as the plain form
  };
  const W q = factor(in.q, W(1) / sqrt(static_cast<W>(in.key_width))), k = factor(in.k, W(1));
  if (lane != 0 || row >= rows) return;
  static_cast<W*>(w.q_factors)[row] = q;
  static_cast<W*>(w.k_factors)[row] = k;
}

/// inverse = (I + A)^-1 for A (C, C), which is strictly lower triangular; both have rows of kSquareRow. First the
/// squares of 16 on the diagonal, then each diagonal of squares below, from the ones above. `scratch`: (4, 16, 17).
template <class T>
__device__ inline void invert(const Wide<T>* a, Wide<T>* inverse, Wide<T>* scratch) {
  using W = Wide<T>;
  constexpr int kRow = kSquareRow<T>, kSide = 16, kSquares = kChunk<T> / kSide;
  static_assert(kSquares <= kWarps, "a warp for each square of a diagonal");
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int column = lane % kSide, half = lane / kSide;
  for (int i = static_cast<int>(threadIdx.x); i < kChunk<T> * kChunk<T>; i += kThreads)
    if (i % kChunk<T> / kSide > i / kChunk<T> / kSide) inverse[i / kChunk<T> * kRow + i % kChunk<T>] = 0;
  if (warp < kSquares && half == 0) {
    const int first = warp * kSide;
    W x[kSide];
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      x[i] = i == column ? W(1) : W(0);
#pragma unroll
      for (int j = 0; j < i; ++j) x[i] -= a[(first + i) * kRow + first + j] * x[j];
      inverse[(first + i) * kRow + first + column] = x[i];
    }
  }
  __syncthreads();
  W* const product = scratch + warp * kSide * (kSide + 1);
  for (int below = 1; below < kSquares; ++below) {
    const int left = warp * kSide, top = (warp + below) * kSide;
    const bool exists = warp + below < kSquares;
    if (exists)
      for (int i = half; i < kSide; i += 2) {
        W sum = 0;
        for (int k = left; k < top; ++k) sum += a[(top + i) * kRow + k] * inverse[k * kRow + left + column];
        product[i * (kSide + 1) + column] = sum;
      }
    __syncthreads();
    if (exists)
      for (int i = half; i < kSide; i += 2) {
        W sum = 0;
        for (int k = 0; k <= i; ++k) sum -= inverse[(top + i) * kRow + top + k] * product[k * (kSide + 1) + column];
        inverse[(top + i) * kRow + left + column] = sum;
      }
    __syncthreads();
  }
}

/// (I + A)^-1 and P. A block takes a chunk of a head of values.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) squares(DeltaRule in, DeltaRuleWorkspace w) {
  using W = Wide<T>;
  constexpr int C = kChunk<T>, kRow = kSquareRow<T>;
  SharedMemory<W> memory;
  Gates<T> gates(memory);
  W *const q = memory.take(C * kSliceRow), *const k = memory.take(C * kSliceRow);
  W *const a = memory.take(C * kRow), *const inverse = memory.take(C * kRow);
  const Chunk<T> at(in, blockIdx.x, /*of_keys=*/false);
  gates.load(at);
  SquareTile<T> kk, qk;
  key_products<N>(at, w, q, k, kk, qk);
  const OwnTile<T> own;
  if (own.exists) {
    kk.each([&](int i, int j, W product) {
      i += own.row, j += own.column;
      a[i * kRow + j] = i > j ? gates.beta[i] * product * gates.decay(i, j) : W(0);
    });
    W* const scores = at.square(w.scores);
    qk.each([&](int i, int j, W product) {
      i += own.row, j += own.column;
      scores[i * C + j] = i >= j ? product * gates.decay(i, j) : W(0);
    });
  }
  __syncthreads();
  invert<T>(a, inverse, q);
  store_rows<kWideLanes<W, 2>>(inverse, kRow, C, C, at.square(w.inverses), C);
}

/// The states before all chunks, and X. A block takes a head of values and kSlice of their columns.
template <class T, int N>
__global__ void __launch_bounds__(kThreads, 3) states(DeltaRule in, DeltaRuleWorkspace w) {
  using W = Wide<T>;
  constexpr int C = kChunk<T>, kRows = 16, kLanes = kWideLanes<W, N>;
  const int keys = padded(in.key_width), key_row = keys + kGap;
  const int slices = padded(in.value_width) / kSlice;
  SharedMemory<W> memory;
  Gates<T> gates(memory);
  W *const k = memory.take(C * key_row), *const inverse = memory.take(C * kSquareRow<T>);
  W *const state = memory.take(keys * kSliceRow), *const side = memory.take(C * kSliceRow);
  W* const x = memory.take(C * kSliceRow);
  Chunk<T> at(in, 0, /*of_keys=*/false);
  at.batch = blockIdx.x / slices / at.heads;
  at.head = static_cast<int>(blockIdx.x / slices % at.heads);
  const int first = static_cast<int>(blockIdx.x % slices) * kSlice, width = at.value_width() - first;
  for (int i = static_cast<int>(threadIdx.x); i < keys * kSliceRow; i += kThreads) state[i] = 0;
  for (int chunk = 0; chunk < at.chunks; ++chunk) {
    at.move_to(chunk);
    gates.load(at);
    load_keys<N>(at, in.k, w.k_factors, 0, keys, k, key_row);
    load_rows<kWideLanes<W, 2>>(at.square(w.inverses), C, C, C, inverse, kSquareRow<T>, C, C);
    load_rows<N>(at.template rows<T>(in.v) + first, in.v.token, at.count, width, side, kSliceRow, C, kSlice);
    const int stored = width < kSlice ? width : kSlice;
    store_rows<kLanes>(state, kSliceRow, at.key_width(), stored, at.state(w.states) + first, in.value_width);
    __syncthreads();
    each_tile<T, kRows>(C, [&](Tile<T, kRows>& tile, int row) {
      tile.add({k + row * key_row, key_row}, {state, kSliceRow}, keys);
      tile.each([&](int i, int j, W product) {
        i += row;
        W& number = side[i * kSliceRow + j];
        number = gates.beta[i] * (number - gates.gamma[i] * product);
      });
    });
    __syncthreads();
    each_tile<T, kRows>(C, [&](Tile<T, kRows>& tile, int row) {
      tile.add({inverse + row * kSquareRow<T>, kSquareRow<T>}, {side, kSliceRow}, row + kRows);
      tile.each([&](int i, int j, W product) { x[(row + i) * kSliceRow + j] = product; });
    });
    __syncthreads();
    store_rows<kLanes>(x, kSliceRow, at.count, stored,
                       at.template positions_of<W>(w.solutions, at.value_width()) + first, in.value_width);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < C * kSlice; i += kThreads)
      x[i / kSlice * kSliceRow + i % kSlice] *= gates.to_end[i / kSlice];
    __syncthreads();
    const W kept = gates.gamma[at.count - 1];
    each_tile<T, kRows>(keys, [&](Tile<T, kRows>& tile, int row) {
      tile.add(Strided<W>{k + row, key_row}.transposed(), {x, kSliceRow}, C);
      tile.each([&](int i, int j, W product) {
        W& number = state[(row + i) * kSliceRow + j];
        number = kept * number + product;
      });
    });
  }
}

/// O. A block takes a chunk of a head of values.
template <class T, int N>
__global__ void __launch_bounds__(kThreads, 3) outputs(DeltaRule in, DeltaRuleWorkspace w, MutableRows out) {
  using W = Wide<T>;
  constexpr int C = kChunk<T>, kRows = 16, kRow = kSquareRow<T>, kLanes = kWideLanes<W, N>;
  const int keys = padded(in.key_width), key_row = keys + kGap;
  SharedMemory<W> memory;
  Gates<T> gates(memory);
  W *const q = memory.take(C * key_row), *const scores = memory.take(C * kRow);
  W *const state = memory.take(keys * kSliceRow), *const x = memory.take(C * kSliceRow);
  const Chunk<T> at(in, blockIdx.x, /*of_keys=*/false);
  gates.load(at);
  const W* const factors = at.key_factors(w.q_factors);
  load_rows<N>(at.key_rows(in.q), in.q.token, at.count, at.key_width(), q, key_row, C, keys,
               [&](int i) { return factors[i] * gates.gamma[i]; });
  load_rows<kWideLanes<W, 2>>(at.square(w.scores), C, C, C, scores, kRow, C, C);
  for (int first = 0; first < at.value_width(); first += kSlice) {
    const int width = at.value_width() - first < kSlice ? at.value_width() - first : kSlice;
    load_rows<kLanes>(at.state(w.states) + first, in.value_width, at.key_width(), width, state, kSliceRow, keys,
                      kSlice);
    load_rows<kLanes>(at.template positions_of<W>(w.solutions, at.value_width()) + first, in.value_width, at.count,
                      width, x, kSliceRow, C, kSlice);
    __syncthreads();
    static_assert(C <= kWarps * kRows, "each warp has one tile, and writes it where others have read");
    const int row = static_cast<int>(threadIdx.x) / 32 * kRows;
    Tile<T, kRows> tile;
    if (row < C) {
      tile.add({q + row * key_row, key_row}, {state, kSliceRow}, keys);
      tile.add({scores + row * kRow, kRow}, {x, kSliceRow}, row + kRows);
    }
    __syncthreads();
    if (row < C) tile.each([&](int i, int j, W number) { x[(row + i) * kSliceRow + j] = number; });
    __syncthreads();
    store_rows<N>(x, kSliceRow, at.count, width, at.template rows<T>(out) + first, out.token);
    __syncthreads();
  }
}
