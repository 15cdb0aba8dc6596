// The backward of the gated delta rule, from the states, X, (I + A)^-1 and P that the kernels of delta_rule.cu computed
// again: gradients of states from the last chunk to the first, then all chunks at the same time. Letters as in
// chunk.cuh; Y is the gradient of the right sides of X. No sum depends on the order in which blocks run.
#include "chunk.cuh"

/// The gradients of the states behind all chunks, and Y. A block takes a head of values and kSlice of their columns.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) state_gradients(DeltaRule in, DeltaRuleWorkspace w, Rows out_gradient) {
  using W = Wide<T>;
  constexpr int C = kChunk<T>, kRows = 16, kRow = kSquareRow<T>, kLanes = kWideLanes<W, N>;
  const int keys = padded(in.key_width), key_row = keys + kGap;
  const int slices = padded(in.value_width) / kSlice;
  SharedMemory<W> memory;
  Gates<T> gates(memory);
  W *const rows = memory.take(C * key_row), *const square = memory.take(C * kRow);
  W *const dstate = memory.take(keys * kSliceRow), *const dout = memory.take(C * kSliceRow);
  W *const dx = memory.take(C * kSliceRow), *const y = memory.take(C * kSliceRow);
  Chunk<T> at(in, 0, /*of_keys=*/false);
  at.batch = blockIdx.x / slices / at.heads;
  at.head = static_cast<int>(blockIdx.x / slices % at.heads);
  const int first = static_cast<int>(blockIdx.x % slices) * kSlice;
  const int width = at.value_width() - first < kSlice ? at.value_width() - first : kSlice;
  for (int i = static_cast<int>(threadIdx.x); i < keys * kSliceRow; i += kThreads) dstate[i] = 0;
  for (int chunk = at.chunks - 1; chunk >= 0; --chunk) {
    at.move_to(chunk);
    gates.load(at);
    load_keys<N>(at, in.k, w.k_factors, 0, keys, rows, key_row);
    load_rows<kWideLanes<W, 2>>(at.square(w.scores), C, C, C, square, kRow, C, C);
    load_rows<N>(at.template rows<T>(out_gradient) + first, out_gradient.token, at.count, width, dout, kSliceRow, C,
                 kSlice);
    store_rows<kLanes>(dstate, kSliceRow, at.key_width(), width, at.state(w.dstates) + first, in.value_width);
    __syncthreads();
    // X is in the next state and in O.
    each_tile<T, kRows>(C, [&](Tile<T, kRows>& tile, int row) {
      tile.add({rows + row * key_row, key_row}, {dstate, kSliceRow}, keys);
      tile.each([&](int i, int, W& number) { number *= gates.to_end[row + i]; });
      tile.add(Strided<W>{square + row * kRow + row, kRow}.transposed(), {dout + row * kSliceRow, kSliceRow}, C - row);
      tile.each([&](int i, int j, W number) { dx[(row + i) * kSliceRow + j] = number; });
    });
    __syncthreads();
    load_rows<kWideLanes<W, 2>>(at.square(w.inverses), C, C, C, square, kRow, C, C);
    __syncthreads();
    each_tile<T, kRows>(C, [&](Tile<T, kRows>& tile, int row) {
      tile.add(Strided<W>{square + row * kRow + row, kRow}.transposed(), {dx + row * kSliceRow, kSliceRow}, C - row);
      tile.each([&](int i, int j, W number) { y[(row + i) * kSliceRow + j] = number; });
    });
    __syncthreads();
    store_rows<kLanes>(y, kSliceRow, at.count, width, at.template positions_of<W>(w.dsides, at.value_width()) + first,
                       in.value_width);
    if (chunk == 0) break;
    __syncthreads();
    // The state before is in K S, in the next state and in O.
    for (int i = static_cast<int>(threadIdx.x); i < C * kSlice; i += kThreads)
      y[i / kSlice * kSliceRow + i % kSlice] *= -gates.beta[i / kSlice] * gates.gamma[i / kSlice];
    __syncthreads();
    const W kept = gates.gamma[at.count - 1];
    each_tile<T, kRows>(keys, [&](Tile<T, kRows>& tile, int row) {
      tile.add(Strided<W>{rows + row, key_row}.transposed(), {y, kSliceRow}, C);
      tile.each([&](int i, int j, W product) {
        W& number = dstate[(row + i) * kSliceRow + j];
        number = kept * number + product;
      });
    });
    __syncthreads();
    load_keys<N>(at, in.q, w.q_factors, 0, keys, rows, key_row);
    for (int i = static_cast<int>(threadIdx.x); i < C * kSlice; i += kThreads)
      dout[i / kSlice * kSliceRow + i % kSlice] *= gates.gamma[i / kSlice];
    __syncthreads();
    each_tile<T, kRows>(keys, [&](Tile<T, kRows>& tile, int row) {
      tile.add(Strided<W>{rows + row, key_row}.transposed(), {dout, kSliceRow}, C);
      tile.each([&](int i, int j, W product) { dstate[(row + i) * kSliceRow + j] += product; });
    });
  }
}

/// Gradients of the squares (C, C): of Q K^T and K K^T for key_gradients, and from them the parts of the gradients of
/// steps and decays; the gradient of V. A block takes a chunk of a head of keys.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    square_gradients(DeltaRule in, DeltaRuleWorkspace w, Rows out_gradient, MutableRows v_gradient) {
  using W = Wide<T>;
  constexpr int C = kChunk<T>, kRow = kSquareRow<T>, kLanes = kWideLanes<W, N>;
  SharedMemory<W> memory;
  Gates<T> gates(memory);
  W *const dout = memory.take(C * kSliceRow), *const x = memory.take(C * kSliceRow);
  W *const y = memory.take(C * kSliceRow), *const v = memory.take(C * kSliceRow);
  W *const of_decays = memory.take(C * kRow), *const of_steps = memory.take(C * kRow);
  const Chunk<T> at(in, blockIdx.x, /*of_keys=*/true);
  const int own_row = static_cast<int>(threadIdx.x);
  const OwnTile<T> own;
  SquareTile<T> kk, qk, dkk, dqk;
  key_products<N>(at, w, dout, x, kk, qk);
  for (int j = 0; j < in.shared; ++j) {
    const Chunk<T> of = at.of_values(j);
    gates.load(of);
    SquareTile<T> dscores, dcouplings;  // of P, and of -A
    W along = 0;                        // <Y_i, V_i>
    for (int first = 0; first < of.value_width(); first += kSlice) {
      const int width = of.value_width() - first;
      load_rows<N>(of.template rows<T>(out_gradient) + first, out_gradient.token, of.count, width, dout, kSliceRow, C,
                   kSlice);
      load_rows<N>(of.template rows<T>(in.v) + first, in.v.token, of.count, width, v, kSliceRow, C, kSlice);
      load_rows<kLanes>(of.template positions_of<W>(w.solutions, of.value_width()) + first, in.value_width, of.count,
                        width, x, kSliceRow, C, kSlice);
      load_rows<kLanes>(of.template positions_of<W>(w.dsides, of.value_width()) + first, in.value_width, of.count,
                        width, y, kSliceRow, C, kSlice);
      __syncthreads();
      if (own.exists) {
        const auto right = Strided<W>{x + own.column * kSliceRow, kSliceRow}.transposed();
        dscores.add({dout + own.row * kSliceRow, kSliceRow}, right, kSlice);
        dcouplings.add({y + own.row * kSliceRow, kSliceRow}, right, kSlice);
      }
      if (own_row < C)
        for (int i = 0; i < kSlice; ++i) along += y[own_row * kSliceRow + i] * v[own_row * kSliceRow + i];
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < C * kSlice; i += kThreads)
        y[i / kSlice * kSliceRow + i % kSlice] *= gates.beta[i / kSlice];
      __syncthreads();
      store_rows<N>(y, kSliceRow, of.count, width < kSlice ? width : kSlice, of.template rows<T>(v_gradient) + first,
                    v_gradient.token);
      __syncthreads();
    }
    if (own.exists) {
#pragma unroll
      for (int i = 0; i < kTileRows<T>; ++i) {
        const int row = own.row + dqk.row(i), column = own.column + dqk.column(i);
        const W decay = row >= column ? gates.decay(row, column) : W(0);
        const W of_score = dscores.sum[i] * decay;
        const W of_step = row > column ? -dcouplings.sum[i] * kk.sum[i] * decay : W(0);
        dqk.sum[i] += of_score;
        if (row > column) dkk.sum[i] -= dcouplings.sum[i] * decay * gates.beta[row];
        of_steps[row * kRow + column] = of_step;
        of_decays[row * kRow + column] = row > column ? of_score * qk.sum[i] + of_step * gates.beta[row] : W(0);
      }
    }
    __syncthreads();
    if (own_row < of.count) {
      double of_log = 0;  // in fp64, because most of a sum cancels
      for (int i = 0; i < C; ++i)
        of_log +=
            static_cast<double>(of_decays[own_row * kRow + i]) - static_cast<double>(of_decays[i * kRow + own_row]);
      W of_beta = along;
      for (int i = 0; i < own_row; ++i) of_beta += of_steps[own_row * kRow + i];
      of.template positions_of<double>(w.dlog)[own_row] = of_log;
      of.template positions_of<W>(w.dbeta)[own_row] = of_beta;
    }
  }
  if (!own.exists) return;
  W *const to_qk = at.square(w.dqk), *const to_kk = at.square(w.dkk);
  dqk.each([&](int i, int j, W number) { to_qk[(own.row + i) * C + own.column + j] = number; });
  dkk.each([&](int i, int j, W number) { to_kk[(own.row + i) * C + own.column + j] = number; });
}

/// Columns of the keys that a block of key_gradients has.
constexpr int kSlab = 2 * kSlice;
constexpr int kSlabRow = kSlab + kGap;

/// The gradients of queries and keys of their lengths, for kSlab columns and a chunk of a head of keys. With G1 = dO
/// S^T, G2 = X dS^T, G3 = Y S^T the dots are this slab's parts of <G1_i, q_i>, <G2_i, k_i>, <G3_i, k_i>. The dots of
/// states are its parts of <dS, S>.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) key_gradients(DeltaRule in, DeltaRuleWorkspace w, Rows out_gradient) {
  using W = Wide<T>;
  constexpr int C = kChunk<T>, kRow = kSquareRow<T>, kLanes = kWideLanes<W, N>, kRows = kTileRows<T>;
  const int slabs = static_cast<int>(in.key_width + kSlab - 1) / kSlab, slab = static_cast<int>(blockIdx.x % slabs);
  const int first_key = slab * kSlab;
  SharedMemory<W> memory;
  Gates<T> gates(memory);
  W *const q = memory.take(C * kSlabRow), *const k = memory.take(C * kSlabRow);
  W *const dout = memory.take(C * kSliceRow), *const x = memory.take(C * kSliceRow);
  W* const y = memory.take(C * kSliceRow);
  W *const state = memory.take(kSlab * kSliceRow), *const dstate = memory.take(kSlab * kSliceRow);
  // The five pieces after q and k are also used as these, when their numbers are no longer needed.
  constexpr int kFree = 3 * C * kSliceRow + 2 * kSlab * kSliceRow;
  static_assert(C * kSlabRow <= kFree && 2 * C * kRow <= kFree, "they fit");
  W *const products = dout, *const dqk = dout, *const dkk = dout + C * kRow;
  const Chunk<T> at(in, blockIdx.x / slabs, /*of_keys=*/true);
  const int keys = at.key_width() - first_key < kSlab ? at.key_width() - first_key : kSlab;
  load_keys<N>(at, in.q, w.q_factors, first_key, kSlab, q, kSlabRow);
  load_keys<N>(at, in.k, w.k_factors, first_key, kSlab, k, kSlabRow);
  const int warp = static_cast<int>(threadIdx.x) / 32, own_row = static_cast<int>(threadIdx.x);
  const int row = warp / 2 * kRows, column = warp % 2 * kSlice;
  Tile<T, kRows> dq, dk;
  for (int j = 0; j < in.shared; ++j) {
    const Chunk<T> of = at.of_values(j);
    gates.load(of);
    Tile<T, kRows> g1, g2, g3;
    W of_states = 0;
    for (int first = 0; first < of.value_width(); first += kSlice) {
      const int width = of.value_width() - first;
      load_rows<N>(of.template rows<T>(out_gradient) + first, out_gradient.token, of.count, width, dout, kSliceRow, C,
                   kSlice);
      load_rows<kLanes>(of.template positions_of<W>(w.solutions, of.value_width()) + first, in.value_width, of.count,
                        width, x, kSliceRow, C, kSlice);
      load_rows<kLanes>(of.template positions_of<W>(w.dsides, of.value_width()) + first, in.value_width, of.count,
                        width, y, kSliceRow, C, kSlice);
      const long long corner = first_key * in.value_width + first;
      load_rows<kLanes>(of.state(w.states) + corner, in.value_width, keys, width, state, kSliceRow, kSlab, kSlice);
      load_rows<kLanes>(of.state(w.dstates) + corner, in.value_width, keys, width, dstate, kSliceRow, kSlab, kSlice);
      __syncthreads();
      const auto right = Strided<W>{state + column * kSliceRow, kSliceRow}.transposed();
      g1.add({dout + row * kSliceRow, kSliceRow}, right, kSlice);
      g3.add({y + row * kSliceRow, kSliceRow}, right, kSlice);
      g2.add({x + row * kSliceRow, kSliceRow}, Strided<W>{dstate + column * kSliceRow, kSliceRow}.transposed(), kSlice);
      for (int i = static_cast<int>(threadIdx.x); i < kSlab * kSlice; i += kThreads) {
        const int place = i / kSlice * kSliceRow + i % kSlice;
        of_states += state[place] * dstate[place];
      }
      __syncthreads();
    }
    const long long of_slab = (of.batch * of.heads + of.head) * slabs + slab;
    const auto dot = [&](int part, Tile<T, kRows>& g, const W* with) {
      g.each([&](int i, int c, W number) {
        const int place = (row + i) * kSlabRow + column + c;
        products[place] = number * with[place];
      });
      __syncthreads();
      if (own_row < of.count) {
        W sum = 0;
        for (int i = 0; i < kSlab; ++i) sum += products[own_row * kSlabRow + i];
        static_cast<W*>(w.dots)[(of_slab * 3 + part) * in.positions + of.start + own_row] = sum;
      }
      __syncthreads();
    };
    dot(0, g1, q);
    dot(1, g2, k);
    dot(2, g3, k);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int r = row + dq.row(i);
      dq.sum[i] += gates.gamma[r] * g1.sum[i];
      dk.sum[i] += gates.to_end[r] * g2.sum[i] - gates.beta[r] * gates.gamma[r] * g3.sum[i];
    }
    of_states = block_sum(of_states);
    if (threadIdx.x == 0) static_cast<W*>(w.dots_of_states)[of_slab * of.chunks + of.number] = of_states;
  }
  load_rows<kWideLanes<W, 2>>(at.square(w.dqk), C, C, C, dqk, kRow, C, C);
  load_rows<kWideLanes<W, 2>>(at.square(w.dkk), C, C, C, dkk, kRow, C, C);
  __syncthreads();
  const Strided<W> right_k{k + column, kSlabRow}, right_q{q + column, kSlabRow};
  dq.add({dqk + row * kRow, kRow}, right_k, C);
  dk.add({dkk + row * kRow, kRow}, right_k, C);
  dk.add(Strided<W>{dkk + row, kRow}.transposed(), right_k, C);
  dk.add(Strided<W>{dqk + row, kRow}.transposed(), right_q, C);
  const auto write = [&](Tile<T, kRows>& tile, void* all) {
    W* const to = at.template positions_of<W>(all, at.key_width()) + first_key;
    tile.each([&](int i, int c, W number) {
      i += row, c += column;
      if (i < at.count && c < keys) to[i * at.key_width() + c] = number;
    });
  };
  write(dq, w.dq);
  write(dk, w.dk);
}

/// The gradients of queries and keys from the gradients of their rows of the lengths. A warp takes a row (B, G, S).
template <class T>
__global__ void unnormalize(DeltaRule in, DeltaRuleWorkspace w, long long rows, MutableRows q_gradient,
                            MutableRows k_gradient) {
  using W = Wide<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const long long known = row < rows ? row : rows - 1, head = known / in.positions % in.key_heads;
  const long long batch = known / in.positions / in.key_heads, position = known % in.positions;
  const auto turn = [&](const Rows& of, const void* factors, const void* gradients, W inverse_square,
                        const MutableRows& to) {
    const T* numbers = static_cast<const T*>(of.data) + batch * of.batch + head * of.head + position * of.token;
    const W factor = static_cast<const W*>(factors)[known];
    const W* gradient = static_cast<const W*>(gradients) + known * in.key_width;
    W along = 0;
    for (int i = lane; i < in.key_width; i += 32) along += widen(numbers[i]) * factor * gradient[i];
    for (int step = 16; step > 0; step /= 2) along += __shfl_xor_sync(0xffffffffu, along, step);
    if (row >= rows) return;
    T* out = static_cast<T*>(to.data) + batch * to.batch + head * to.head + position * to.token;
    for (int i = lane; i < in.key_width; i += 32)
      out[i] = narrow<T>(factor * (gradient[i] - along * inverse_square * factor * widen(numbers[i])));
  };
  turn(in.q, w.q_factors, w.dq, static_cast<W>(in.key_width), q_gradient);
  turn(in.k, w.k_factors, w.dk, W(1), k_gradient);
}

/// The gradients of decays and steps. A block takes a chunk of a head of values, a thread a position.
template <class T>
__global__ void gate_gradients(DeltaRule in, DeltaRuleWorkspace w, MutableRows log_gradient,
                               MutableRows beta_gradient) {
  using W = Wide<T>;
  __shared__ double of_log[kChunk<T>], to_end[kChunk<T>];
  SharedMemory<W> memory;
  Gates<T> gates(memory);
  const Chunk<T> at(in, blockIdx.x, /*of_keys=*/false);
  gates.load(at);
  const int i = static_cast<int>(threadIdx.x), last = at.count - 1;
  const int slabs = static_cast<int>(in.key_width + kSlab - 1) / kSlab;
  const long long head = (at.batch * at.heads + at.head) * slabs;
  if (i < at.count) {
    W dots[3] = {}, of_states = 0;
    for (int slab = 0; slab < slabs; ++slab) {
      for (int part = 0; part < 3; ++part)
        dots[part] += static_cast<const W*>(w.dots)[((head + slab) * 3 + part) * in.positions + at.start + i];
      of_states += static_cast<const W*>(w.dots_of_states)[(head + slab) * at.chunks + at.number];
    }
    const W of_gamma = dots[0] - gates.beta[i] * dots[2] + (i == last ? of_states : W(0));
    to_end[i] = static_cast<double>(gates.to_end[i] * dots[1]);
    of_log[i] =
        at.template positions_of<double>(w.dlog)[i] + static_cast<double>(of_gamma * gates.gamma[i]) - to_end[i];
    at.template rows<W>(beta_gradient)[i * beta_gradient.token] =
        at.template positions_of<W>(w.dbeta)[i] - gates.gamma[i] * dots[2];
  }
  __syncthreads();
  if (i >= at.count) return;
  // The logarithm of a position is in the sums of all positions behind it.
  double sum = 0;
  for (int j = last; j >= i; --j) sum += of_log[j];
  for (int j = 0; j <= last; ++j) sum += to_end[j];
  at.template rows<W>(log_gradient)[i * log_gradient.token] = static_cast<W>(sum);
}
