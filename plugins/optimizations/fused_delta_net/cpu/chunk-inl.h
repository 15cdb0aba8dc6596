// A chunk of the gated delta rule: its queries and keys, and the decays, steps and values of a head. Letters
// as in delta_rule.cpp. Included once for each instruction set, as lanes-inl.h.
#if defined(OPTRUSH_DELTA_RULE_CHUNK) == defined(HWY_TARGET_TOGGLE)
#ifdef OPTRUSH_DELTA_RULE_CHUNK
#undef OPTRUSH_DELTA_RULE_CHUNK
#else
#define OPTRUSH_DELTA_RULE_CHUNK
#endif
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "cpu/products-inl.h"
#include "hwy/aligned_allocator.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernel_parts/lanes-inl.h"
#include "kernels.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
constexpr int64_t kChunk = kDeltaRuleChunk;
constexpr double kEps = 1e-6;  // as the plain form, below the square of a length

/// Scratch memory of a thread, handed out piece by piece.
template <class W>
class Scratch {
 public:
  explicit Scratch(int64_t elements)
      : all_(hwy::AllocateAligned<W>(static_cast<size_t>(elements))), left_(elements) {}
  /// `rows` padded rows.
  W* take(int64_t rows, int64_t padded_width) {
    W* const piece = all_.get() + used_;
    used_ += rows * padded_width;
    HWY_ASSERT(used_ <= left_);
    return piece;
  }

 private:
  hwy::AlignedFreeUniquePtr<W[]> all_;
  int64_t left_, used_ = 0;
};

/// (rows, width) of any type to padded rows; the padding becomes 0.
template <class T, class W = Wide<T>>
void load_rows(const T* from, int64_t stride, int64_t rows, int64_t width, W* to, int64_t ld) {
  for (int64_t i = 0; i < rows; ++i) {
    each_vector<W>(0, width, [&](auto d, int64_t k) HWY_ATTR {
      hn::StoreU(load(d, from + i * stride + k), d, to + i * ld + k);
    });
    std::fill(to + i * ld + width, to + (i + 1) * ld, W(0));
  }
}
template <class T, class W = Wide<T>>
void store_rows(const W* from, int64_t ld, int64_t rows, int64_t width, T* to, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i)
    each_vector<W>(0, width, [&](auto d, int64_t k) HWY_ATTR {
      store(d, hn::LoadU(d, from + i * ld + k), to + i * stride + k, /*stream=*/false);
    });
}

/// Gives each row the length `length`. `factors`: by which it was multiplied.
template <class W>
void normalize(W* x, int64_t ld, int64_t rows, W length, W* factors) {
  for (int64_t i = 0; i < rows; ++i) {
    factors[i] = length / std::sqrt(dot(x + i * ld, x + i * ld, ld) + static_cast<W>(kEps));
    scaled_to(factors[i], x + i * ld, x + i * ld, ld);
  }
}
/// Turns the gradient of the normalized rows into the gradient of the given rows, in place.
template <class W>
void unnormalize(const W* x, W* gradient, int64_t ld, int64_t rows, W length, const W* factors) {
  for (int64_t i = 0; i < rows; ++i) {
    W* const g = gradient + i * ld;
    add_scaled(-dot(x + i * ld, g, ld) / (length * length), x + i * ld, g, ld);
    scaled_to(factors[i], g, g, ld);
  }
}

/// Sizes of a call and one group of heads, with pointers to its first position.
template <class T>
struct Group {
  using W = Wide<T>;
  const DeltaRule& in;
  int64_t batch, group;
  int64_t kp, vp;  ///< padded widths

  Group(const DeltaRule& given, int64_t index)
      : in(given),
        batch(index / given.key_heads),
        group(index % given.key_heads),
        kp(padded<W>(given.key_width)),
        vp(padded<W>(given.value_width)) {}
  template <class E, class AnyRows>
  auto at(const AnyRows& rows, int64_t head, int64_t position) const {
    using Element = std::conditional_t<std::is_same_v<AnyRows, Rows>, const E, E>;
    return static_cast<Element*>(rows.data) + batch * rows.batch + head * rows.head + position * rows.token;
  }
  int64_t value_head(int64_t j) const { return group * in.shared + j; }
  const int32_t* documents() const {
    return in.documents == nullptr ? nullptr : in.documents + batch * in.positions;
  }
};

/// What a chunk has in common for all heads of values of a group.
template <class T>
struct Keys {
  using W = Wide<T>;
  W *q, *k, *q_factors, *k_factors;
  W* kt;       ///< (K, C)
  W *kk, *qk;  ///< (C, C)
  static int64_t elements(int64_t kp) {
    return 2 * kChunk * kp + 2 * kChunk + kp * kChunk + 2 * kChunk * kChunk;
  }
  Keys(Scratch<W>& scratch, int64_t kp)
      : q(scratch.take(kChunk, kp)),
        k(scratch.take(kChunk, kp)),
        q_factors(scratch.take(1, kChunk)),
        k_factors(scratch.take(1, kChunk)),
        kt(scratch.take(kp, kChunk)),
        kk(scratch.take(kChunk, kChunk)),
        qk(scratch.take(kChunk, kChunk)) {}

  static W query_length(const Group<T>& of) { return 1 / std::sqrt(static_cast<W>(of.in.key_width)); }
  void load(const Group<T>& of, int64_t start, int64_t count, bool with_queries) {
    const int64_t width = of.in.key_width;
    load_rows(of.template at<T>(of.in.k, of.group, start), of.in.k.token, count, width, k, of.kp);
    normalize(k, of.kp, count, W(1), k_factors);
    transpose(k, of.kp, kt, kChunk, count, width);
    product<Into::set, W>({k, of.kp}, kt, kChunk, kk, kChunk, count, width, kChunk);
    if (!with_queries) return;
    load_rows(of.template at<T>(of.in.q, of.group, start), of.in.q.token, count, width, q, of.kp);
    normalize(q, of.kp, count, query_length(of), q_factors);
    product<Into::set, W>({q, of.kp}, kt, kChunk, qk, kChunk, count, width, kChunk);
  }
};

/// A chunk of a head of values.
template <class T>
struct Values {
  using W = Wide<T>;
  W *gamma, *beta;
  W* decay;       ///< D (C, C)
  W *a, *p;       ///< (C, C)
  W *given, *ks;  ///< V and K S (C, V)
  static int64_t elements(int64_t vp) { return 2 * kChunk + 3 * kChunk * kChunk + 2 * kChunk * vp; }
  Values(Scratch<W>& scratch, int64_t vp)
      : gamma(scratch.take(1, kChunk)),
        beta(scratch.take(1, kChunk)),
        decay(scratch.take(kChunk, kChunk)),
        a(scratch.take(kChunk, kChunk)),
        p(scratch.take(kChunk, kChunk)),
        given(scratch.take(kChunk, vp)),
        ks(scratch.take(kChunk, vp)) {}

  void load(const Group<T>& of, const Keys<T>& keys, int64_t head, int64_t start, int64_t count,
            bool with_queries) {
    load_decays(of, head, start, count);
    for (int64_t i = 0; i < count; ++i) {
      beta[i] = *of.template at<W>(of.in.beta, head, start + i);
      multiply_row(keys.kk + i * kChunk, decay + i * kChunk, beta[i], i, a + i * kChunk);
      if (with_queries) multiply_row(keys.qk + i * kChunk, decay + i * kChunk, W(1), i + 1, p + i * kChunk);
    }
    load_rows(of.template at<T>(of.in.v, head, start), of.in.v.token, count, of.in.value_width, given, of.vp);
  }

  /// X, from the state before the chunk; null: 0.
  void solve_for(const Group<T>& of, const Keys<T>& keys, const W* state, int64_t count, W* x) {
    if (state != nullptr)
      product<Into::set, W>({keys.k, of.kp}, state, of.vp, ks, of.vp, count, of.in.key_width, of.vp);
    for (int64_t i = 0; i < count; ++i) {
      scaled_to(beta[i], given + i * of.vp, x + i * of.vp, of.vp);
      if (state != nullptr) add_scaled(-beta[i] * gamma[i], ks + i * of.vp, x + i * of.vp, of.vp);
    }
    solve(a, kChunk, x, of.vp, count);
  }

  /// From the state before the chunk to the one behind it. `decayed`: scratch (C, K), which gets diag(D_C) K.
  void step(const Group<T>& of, const Keys<T>& keys, const W* x, int64_t count, bool first, const W* state,
            W* next, W* decayed) const {
    decay_keys(of, keys, count, decayed);
    if (first)
      std::fill(next, next + of.in.key_width * of.vp, W(0));
    else
      scaled_to(gamma[count - 1], state, next, of.in.key_width * of.vp);
    product<Into::add, W>(Strided<W>{decayed, of.kp}.transposed(), x, of.vp, next, of.vp, of.in.key_width,
                          count, of.vp);
  }
  void decay_keys(const Group<T>& of, const Keys<T>& keys, int64_t count, W* decayed) const {
    for (int64_t i = 0; i < count; ++i)
      scaled_to(decay[(count - 1) * kChunk + i], keys.k + i * of.kp, decayed + i * of.kp, of.kp);
  }

 private:
  void load_decays(const Group<T>& of, int64_t head, int64_t start, int64_t count) {
    W sums[kChunk], sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += *of.template at<W>(of.in.log_decay, head, start + i);
      sums[i] = sum;
      gamma[i] = std::exp(sum);
    }
    const Tag<W> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t i = count; i < kChunk; ++i) sums[i] = sum;
    for (int64_t i = 0; i < count; ++i) {
      const auto own = hn::Set(d, sums[i]);
      for (int64_t j = 0; j <= i; j += lanes)
        hn::StoreU(hn::Exp(d, hn::Sub(own, hn::LoadU(d, sums + j))), d, decay + i * kChunk + j);
    }
    const int32_t* ids = of.documents();
    if (ids == nullptr) return;
    ids += start;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < i; ++j)
        if (ids[i] != ids[j]) decay[i * kChunk + j] = 0;
      if (start > 0 && ids[i] != ids[-1]) gamma[i] = 0;
    }
  }
  /// out = factor x y for the first `count`, and 0 behind them.
  static void multiply_row(const W* x, const W* y, W factor, int64_t count, W* out) {
    const Tag<W> d;
    const auto scale = hn::Set(d, factor);
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t j = 0; j < kChunk; j += lanes) {
      const auto kept = hn::FirstN(d, static_cast<size_t>(std::clamp<int64_t>(count - j, 0, lanes)));
      const auto value = hn::Mul(scale, hn::Mul(hn::LoadU(d, x + j), hn::LoadU(d, y + j)));
      hn::StoreU(hn::IfThenElseZero(kept, value), d, out + j);
    }
  }
};
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();
#endif
