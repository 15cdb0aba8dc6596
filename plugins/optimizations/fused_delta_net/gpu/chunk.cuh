// A chunk of the gated delta rule (arXiv:2412.06464, section 3.3). Within a chunk of C positions: gamma, the decay
// since its start; D_ij = gamma_i / gamma_j for i >= j; S, the state before it. Then
//   A = tril(diag(beta) (K K^T * D), -1), P = tril(Q K^T * D), X = (I + A)^-1 diag(beta) (V - diag(gamma) K S),
//   O = diag(gamma) Q S + P X, and the next state is gamma_C S + (diag(D_C) K)^T X.
// Rows of Q and K have the lengths 1 / sqrt(K) and 1.
#include "tiles.cuh"

/// Have the same layout as in kernels.h.
struct Rows {
  const void* data;
  long long batch, head, token;
};
struct MutableRows {
  void* data;
  long long batch, head, token;
};
struct DeltaRule {
  unsigned char type;
  Rows q, k, v, log_decay, beta;
  const int* documents;
  long long batch, key_heads, shared, positions, key_width, value_width;
};
/// Numbers that one kernel leaves for the next, dense, in the type of the arithmetic. N chunks; a name with d is a
/// gradient of the loss.
struct DeltaRuleWorkspace {
  void *q_factors, *k_factors;  ///< (B, G, S): by which a row is multiplied to get its length
  void *inverses, *scores;      ///< (B, H, N, C, C): (I + A)^-1 and P
  void *states, *solutions;     ///< (B, H, N, K, V): before each chunk; (B, H, S, V): X
  void *dstates, *dsides;       ///< (B, H, N, K, V): behind each chunk; (B, H, S, V): of the right sides of X
  void *dqk, *dkk;              ///< (B, G, N, C, C): of Q K^T, and of K K^T below the diagonal
  void *dq, *dk;                ///< (B, G, S, K): of rows of the lengths above
  void* dots;                   ///< (B, H, slabs, 3, S): see key_gradients
  void* dots_of_states;         ///< (B, H, slabs, N)
  void *dbeta, *dlog;           ///< (B, H, S): parts; dlog in fp64
};

template <class T>
constexpr int kChunk = sizeof(T) == 8 ? 32 : 64;
/// Rows of the tile that a warp has of a square of kChunk.
template <class T>
constexpr int kTileRows = kChunk<T> / 2;
/// A row of a square of kChunk in shared memory.
template <class T>
constexpr int kSquareRow = kChunk<T> + kGap;

__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float exponential(float x) { return expf(x); }

__device__ inline int padded(long long width) { return static_cast<int>(width + kSlice - 1) / kSlice * kSlice; }

/// The positions of a chunk and a head of values or of keys.
template <class T>
struct Chunk {
  using W = Wide<T>;
  const DeltaRule& in;
  const int chunks, heads;
  long long batch;
  int head;    ///< of `heads`
  int number;  ///< of the chunk
  long long start;
  int count;

  /// `index`: of the chunk, counted over heads and the batch.
  __device__ Chunk(const DeltaRule& given, long long index, bool of_keys)
      : in(given),
        chunks(static_cast<int>((given.positions + kChunk<T> - 1) / kChunk<T>)),
        heads(static_cast<int>(of_keys ? given.key_heads : given.key_heads * given.shared)),
        batch(index / (static_cast<long long>(chunks) * heads)),
        head(static_cast<int>(index / chunks % heads)) {
    move_to(static_cast<int>(index % chunks));
  }
  __device__ void move_to(int chunk) {
    number = chunk;
    start = static_cast<long long>(chunk) * kChunk<T>;
    count = static_cast<int>(in.positions - start < kChunk<T> ? in.positions - start : kChunk<T>);
  }
  /// The same chunk for a head of values that shares this head of keys.
  __device__ Chunk of_values(int j) const {
    Chunk other(in, 0, false);
    other.batch = batch;
    other.head = static_cast<int>(head * in.shared) + j;
    other.move_to(number);
    return other;
  }
  __device__ int key_head() const { return heads == in.key_heads ? head : head / static_cast<int>(in.shared); }
  __device__ int key_width() const { return static_cast<int>(in.key_width); }
  __device__ int value_width() const { return static_cast<int>(in.value_width); }

  /// The row of this head at `start`.
  template <class E>
  __device__ const E* rows(const Rows& of) const {
    return static_cast<const E*>(of.data) + batch * of.batch + head * of.head + start * of.token;
  }
  template <class E>
  __device__ E* rows(const MutableRows& of) const {
    return static_cast<E*>(of.data) + batch * of.batch + head * of.head + start * of.token;
  }
  __device__ const T* key_rows(const Rows& of) const {
    return static_cast<const T*>(of.data) + batch * of.batch + key_head() * of.head + start * of.token;
  }
  /// In a dense array (B, heads, S, width).
  template <class E>
  __device__ E* positions_of(void* all, int width = 1) const {
    return static_cast<E*>(all) + ((batch * heads + head) * in.positions + start) * width;
  }
  __device__ const W* key_factors(void* all) const {
    return static_cast<const W*>(all) + (batch * in.key_heads + key_head()) * in.positions + start;
  }
  /// In a dense array (B, heads, N, size).
  __device__ W* of_chunk(void* all, long long size) const {
    return static_cast<W*>(all) + ((batch * heads + head) * chunks + number) * size;
  }
  __device__ W* square(void* all) const { return of_chunk(all, kChunk<T> * kChunk<T>); }
  __device__ W* state(void* all) const { return of_chunk(all, in.key_width * in.value_width); }
};

/// Decays and steps of a chunk.
template <class T>
struct Gates {
  using W = Wide<T>;
  W *sums, *gamma, *beta;
  W* to_end;  ///< D of the last position; 0 beyond it
  int* documents;

  __device__ explicit Gates(SharedMemory<W>& memory)
      : sums(memory.take(kChunk<T>)),
        gamma(memory.take(kChunk<T>)),
        beta(memory.take(kChunk<T>)),
        to_end(memory.take(kChunk<T>)),
        documents(reinterpret_cast<int*>(memory.take(kChunk<T>))) {}

  /// D_ij for i >= j
  __device__ W decay(int i, int j) const {
    return documents[i] == documents[j] ? exponential(sums[i] - sums[j]) : W(0);
  }
  /// All threads of the block take part, and may use the gates of an earlier chunk until then.
  __device__ void load(const Chunk<T>& at) {
    const int i = static_cast<int>(threadIdx.x);
    const int* ids = at.in.documents == nullptr ? nullptr : at.in.documents + at.batch * at.in.positions + at.start;
    const bool own = i < kChunk<T>, exists = i < at.count;
    __syncthreads();
    if (own) {
      to_end[i] = exists ? at.template rows<W>(at.in.log_decay)[i * at.in.log_decay.token] : W(0);
      beta[i] = exists ? at.template rows<W>(at.in.beta)[i * at.in.beta.token] : W(0);
      documents[i] = exists && ids != nullptr ? ids[i] : 0;
    }
    __syncthreads();
    if (own) {
      W sum = 0;
      for (int j = 0; j <= i; ++j) sum += to_end[j];
      const bool sees = exists && (ids == nullptr || at.start == 0 || ids[-1] == documents[i]);
      sums[i] = sum;
      gamma[i] = sees ? exponential(sum) : W(0);
    }
    __syncthreads();
    if (own) to_end[i] = exists ? decay(at.count - 1, i) : W(0);
    __syncthreads();
  }
};

/// The tile of a square (C, C) that this warp has.
template <class T>
struct OwnTile {
  static constexpr int kAcross = kChunk<T> / kSlice;
  int row, column;
  bool exists;
  __device__ OwnTile() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    row = warp / kAcross * kTileRows<T>;
    column = warp % kAcross * kSlice;
    exists = row < kChunk<T>;
  }
};
template <class T>
using SquareTile = Tile<T, kTileRows<T>>;

/// Rows of queries or of keys, of their lengths: `columns` of them from `first` on, for all C positions.
template <int N, class T>
__device__ inline void load_keys(const Chunk<T>& at, const Rows& of, void* factors, int first, int columns, Wide<T>* to,
                                 int row) {
  const Wide<T>* all = at.key_factors(factors);
  load_rows<N>(at.key_rows(of) + first, of.token, at.count, at.key_width() - first, to, row, kChunk<T>, columns,
               [=](int i) { return all[i]; });
}

/// This warp's tiles of K K^T and Q K^T. `q`, `k`: shared memory (C, kSliceRow), which is free afterwards.
template <int N, class T>
__device__ inline void key_products(const Chunk<T>& at, const DeltaRuleWorkspace& w, Wide<T>* q, Wide<T>* k,
                                    SquareTile<T>& kk, SquareTile<T>& qk) {
  const OwnTile<T> own;
  for (int first = 0; first < at.key_width(); first += kSlice) {
    load_keys<N>(at, at.in.q, w.q_factors, first, kSlice, q, kSliceRow);
    load_keys<N>(at, at.in.k, w.k_factors, first, kSlice, k, kSliceRow);
    __syncthreads();
    if (own.exists) {
      const auto right = Strided<Wide<T>>{k + own.column * kSliceRow, kSliceRow}.transposed();
      kk.add({k + own.row * kSliceRow, kSliceRow}, right, kSlice);
      qk.add({q + own.row * kSliceRow, kSliceRow}, right, kSlice);
    }
    __syncthreads();
  }
}
