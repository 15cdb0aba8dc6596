// The gated delta rule in chunks (arXiv:2412.06464, section 3.3) on a CPU. A chunk of a head stays in the
// second cache, and its products are made there. Within a chunk of C positions: gamma, the decay since its
// start; D_ij = gamma_i / gamma_j for i >= j; S, the state before it. Then
//   A = tril(diag(beta) (K K^T * D), -1), P = tril(Q K^T * D), X = (I + A)^-1 diag(beta) (V - diag(gamma) K
//   S), O = diag(gamma) Q S + P X, and the next state is gamma_C S + (diag(D_C) K)^T X.
// The backward computes all states and X again, and then takes the chunks from the last to the first.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/delta_rule.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <algorithm>
#include <array>

#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include "cpu/chunk-inl.h"
#include "cpu/products-inl.h"
#include "hwy/highway.h"
#include "kernel_parts/lanes-inl.h"
#include "kernels.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
template <class T>
void forward(const DeltaRuleForward& call, int64_t index) {
  using W = Wide<T>;
  const Group<T> of(call.in, index);
  const int64_t kp = of.kp, vp = of.vp, width = call.in.key_width, state_size = width * vp;
  Scratch<W> scratch(Keys<T>::elements(kp) + Values<T>::elements(vp) + kChunk * kp + 2 * kChunk * vp +
                     call.in.shared * state_size);
  Keys<T> keys(scratch, kp);
  Values<T> values(scratch, vp);
  W *const decayed = scratch.take(kChunk, kp), *const x = scratch.take(kChunk, vp),
           *const out = scratch.take(kChunk, vp), *const states = scratch.take(call.in.shared * width, vp);
  for (int64_t start = 0; start < call.in.positions; start += kChunk) {
    const int64_t count = std::min(kChunk, call.in.positions - start);
    const bool first = start == 0;
    keys.load(of, start, count, /*with_queries=*/true);
    for (int64_t j = 0; j < call.in.shared; ++j) {
      W* const state = states + j * state_size;
      values.load(of, keys, of.value_head(j), start, count, /*with_queries=*/true);
      values.solve_for(of, keys, first ? nullptr : state, count, x);
      if (first) {
        product<Into::set, W>({values.p, kChunk}, x, vp, out, vp, count, count, vp, Band::lower);
      } else {
        product<Into::set, W>({keys.q, kp}, state, vp, out, vp, count, width, vp);
        for (int64_t i = 0; i < count; ++i) scaled_to(values.gamma[i], out + i * vp, out + i * vp, vp);
        product<Into::add, W>({values.p, kChunk}, x, vp, out, vp, count, count, vp, Band::lower);
      }
      store_rows(out, vp, count, call.in.value_width, of.template at<T>(call.out, of.value_head(j), start),
                 call.out.token);
      values.step(of, keys, x, count, first, state, state, decayed);
    }
  }
}

/// The backward of one group. Letters as above; a name with d is the gradient of the loss.
template <class T>
class Backward {
  using W = Wide<T>;

 public:
  Backward(const DeltaRuleBackward& call, int64_t index)
      : call_(call),
        in_(call.in),
        of_(call.in, index),
        chunks_((in_.positions + kChunk - 1) / kChunk),
        state_size_(in_.key_width * of_.vp),
        x_size_(kChunk * of_.vp),
        scratch_(Keys<T>::elements(of_.kp) + Values<T>::elements(of_.vp) + 5 * kChunk * of_.kp + 3 * x_size_ +
                 of_.vp * kChunk + 2 * of_.vp * of_.kp + 4 * kChunk * kChunk + 3 * kChunk +
                 in_.shared * ((chunks_ + 1) * state_size_ + state_size_ + chunks_ * x_size_)),
        keys_(scratch_, of_.kp),
        values_(scratch_, of_.vp) {}

  void run() {
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) find_states(chunk);
    std::fill(dstates_, dstates_ + in_.shared * state_size_, W(0));
    for (int64_t chunk = chunks_ - 1; chunk >= 0; --chunk) go_back(chunk);
  }

 private:
  int64_t count(int64_t chunk) const { return std::min(kChunk, in_.positions - chunk * kChunk); }
  W* state(int64_t chunk, int64_t j) { return states_ + (j * (chunks_ + 1) + chunk) * state_size_; }
  W* solution(int64_t chunk, int64_t j) { return solutions_ + (j * chunks_ + chunk) * x_size_; }

  void find_states(int64_t chunk) {
    keys_.load(of_, chunk * kChunk, count(chunk), /*with_queries=*/false);
    for (int64_t j = 0; j < in_.shared; ++j) {
      values_.load(of_, keys_, of_.value_head(j), chunk * kChunk, count(chunk), /*with_queries=*/false);
      W *const before = state(chunk, j), *const x = solution(chunk, j);
      values_.solve_for(of_, keys_, chunk == 0 ? nullptr : before, count(chunk), x);
      values_.step(of_, keys_, x, count(chunk), chunk == 0, before, state(chunk + 1, j), decayed_);
    }
  }

  void go_back(int64_t chunk) {
    const int64_t start = chunk * kChunk, rows = count(chunk), kp = of_.kp, width = in_.key_width;
    keys_.load(of_, start, rows, /*with_queries=*/true);
    for (W* all : {dq_, dk_}) std::fill(all, all + kChunk * kp, W(0));
    for (W* all : {dkk_, dqk_}) std::fill(all, all + kChunk * kChunk, W(0));
    for (int64_t j = 0; j < in_.shared; ++j) of_head(chunk, j);
    // K K^T and Q K^T
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < i; ++k) dkk_[k * kChunk + i] = dkk_[i * kChunk + k];
    product<Into::add, W>({dkk_, kChunk}, keys_.k, kp, dk_, kp, rows, rows, kp);
    product<Into::add, W>(Strided<W>{dqk_, kChunk}.transposed(), keys_.q, kp, dk_, kp, rows, rows, kp,
                          Band::upper);
    product<Into::add, W>({dqk_, kChunk}, keys_.k, kp, dq_, kp, rows, rows, kp, Band::lower);
    unnormalize(keys_.k, dk_, kp, rows, W(1), keys_.k_factors);
    unnormalize(keys_.q, dq_, kp, rows, Keys<T>::query_length(of_), keys_.q_factors);
    store_rows(dk_, kp, rows, width, of_.template at<T>(call_.k, of_.group, start), call_.k.token);
    store_rows(dq_, kp, rows, width, of_.template at<T>(call_.q, of_.group, start), call_.q.token);
  }

  /// Adds to dq_, dk_, dkk_ and dqk_, and writes the gradients of this head's values, decays and steps.
  void of_head(int64_t chunk, int64_t j) {
    const int64_t start = chunk * kChunk, rows = count(chunk), head = of_.value_head(j), kp = of_.kp,
                  vp = of_.vp;
    const int64_t width = in_.key_width, values = in_.value_width;
    const bool first = chunk == 0, last = chunk + 1 == chunks_;
    const W *const s = state(chunk, j), *const x = solution(chunk, j);
    W* const ds = dstates_ + j * state_size_;
    values_.load(of_, keys_, head, start, rows, /*with_queries=*/true);
    const W *const gamma = values_.gamma, *const beta = values_.beta, *const decay = values_.decay;
    std::fill(dgamma_, dgamma_ + kChunk, W(0));
    dlog_.fill(0);
    load_rows(of_.template at<T>(call_.out_gradient, head, start), call_.out_gradient.token, rows, values,
              dout_, vp);

    // O = diag(gamma) Q S + P X
    transpose(x, vp, xt_, kChunk, rows, values);
    product<Into::set, W>({dout_, vp}, xt_, kChunk, square_, kChunk, rows, values, kChunk);  // of P
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k <= i; ++k) {
        const int64_t at = i * kChunk + k;
        dqk_[at] += square_[at] * decay[at];
        add_decay(i, k, square_[at] * values_.p[at]);
      }
    product<Into::set, W>(Strided<W>{values_.p, kChunk}.transposed(), dout_, vp, dx_, vp, rows, rows, vp,
                          Band::upper);
    if (!first) {
      transpose(s, vp, st_, kp, width, values);
      product<Into::set, W>({dout_, vp}, st_, kp, rows_, kp, rows, values, kp);
      for (int64_t i = 0; i < rows; ++i) {
        dgamma_[i] += dot(rows_ + i * kp, keys_.q + i * kp, kp);
        add_scaled(gamma[i], rows_ + i * kp, dq_ + i * kp, kp);
      }
    }
    // the next state
    if (!last) {
      values_.decay_keys(of_, keys_, rows, decayed_);
      product<Into::add, W>({decayed_, kp}, ds, vp, dx_, vp, rows, width, vp);
      transpose(ds, vp, st_of_gradient_, kp, width, values);
      product<Into::set, W>({x, vp}, st_of_gradient_, kp, rows_, kp, rows, values, kp);
      for (int64_t i = 0; i < rows; ++i) {
        const W factor = decay[(rows - 1) * kChunk + i];
        add_decay(rows - 1, i, factor * dot(rows_ + i * kp, keys_.k + i * kp, kp));
        add_scaled(factor, rows_ + i * kp, dk_ + i * kp, kp);
      }
      if (!first) dgamma_[rows - 1] += dot(ds, s, state_size_);
    }
    // X = (I + A)^-1 diag(beta) (V - diag(gamma) K S)
    W* const y = dx_;
    solve_transposed(values_.a, kChunk, y, vp, rows);
    product<Into::set, W>({y, vp}, xt_, kChunk, square_, kChunk, rows, values, kChunk);  // of -A
    for (int64_t i = 0; i < rows; ++i) {
      W of_beta = 0;
      for (int64_t k = 0; k < i; ++k) {
        const int64_t at = i * kChunk + k;
        of_beta -= square_[at] * keys_.kk[at] * decay[at];
        dkk_[at] -= square_[at] * decay[at] * beta[i];
        add_decay(i, k, -square_[at] * values_.a[at]);
      }
      dbeta_[i] = of_beta + dot(y + i * vp, values_.given + i * vp, vp);
    }
    if (!first) {
      product<Into::set, W>({keys_.k, kp}, s, vp, values_.ks, vp, rows, width, vp);
      for (int64_t i = 0; i < rows; ++i) {
        const W both = dot(y + i * vp, values_.ks + i * vp, vp);
        dbeta_[i] -= gamma[i] * both;
        dgamma_[i] -= beta[i] * both;
        scaled_to(-beta[i] * gamma[i], y + i * vp, values_.ks + i * vp, vp);  // of K S
      }
      product<Into::add, W>({values_.ks, vp}, st_, kp, dk_, kp, rows, values, kp);
      // the state before: from its decay, from O, and from K S
      scaled_to(last ? W(0) : gamma[rows - 1], ds, ds, state_size_);
      for (int64_t i = 0; i < rows; ++i) scaled_to(gamma[i], keys_.q + i * kp, decayed_ + i * kp, kp);
      product<Into::add, W>(Strided<W>{decayed_, kp}.transposed(), dout_, vp, ds, vp, width, rows, vp);
      product<Into::add, W>(Strided<W>{keys_.k, kp}.transposed(), values_.ks, vp, ds, vp, width, rows, vp);
    }
    for (int64_t i = 0; i < rows; ++i) scaled_to(beta[i], y + i * vp, y + i * vp, vp);
    store_rows(y, vp, rows, values, of_.template at<T>(call_.v, head, start), call_.v.token);
    double sum = 0;
    for (int64_t i = rows - 1; i >= 0; --i) {
      sum += dlog_[static_cast<size_t>(i)] + (first ? 0.0 : static_cast<double>(dgamma_[i] * gamma[i]));
      *of_.template at<W>(call_.log_decay, head, start + i) = static_cast<W>(sum);
      *of_.template at<W>(call_.beta, head, start + i) = dbeta_[i];
    }
  }

  /// D_ik is made of two sums of logarithms. Adds `value`, the gradient of D_ik times D_ik, to their
  /// gradients.
  void add_decay(int64_t i, int64_t k, W value) {
    dlog_[static_cast<size_t>(i)] += static_cast<double>(value);
    dlog_[static_cast<size_t>(k)] -= static_cast<double>(value);
  }

  const DeltaRuleBackward& call_;
  const DeltaRule& in_;
  const Group<T> of_;
  const int64_t chunks_, state_size_, x_size_;
  Scratch<W> scratch_;
  Keys<T> keys_;
  Values<T> values_;
  W* const decayed_ = scratch_.take(kChunk, of_.kp);
  W* const rows_ = scratch_.take(kChunk, of_.kp);
  W* const dq_ = scratch_.take(kChunk, of_.kp);
  W* const dk_ = scratch_.take(kChunk, of_.kp);
  W* const dout_ = scratch_.take(kChunk, of_.vp);
  W* const dx_ = scratch_.take(kChunk, of_.vp);
  W* const xt_ = scratch_.take(of_.vp, kChunk);
  W* const st_ = scratch_.take(of_.vp, of_.kp);
  W* const st_of_gradient_ = scratch_.take(of_.vp, of_.kp);
  W* const square_ = scratch_.take(kChunk, kChunk);
  W* const dkk_ = scratch_.take(kChunk, kChunk);
  W* const dqk_ = scratch_.take(kChunk, kChunk);
  W* const dgamma_ = scratch_.take(1, kChunk);
  std::array<double, kChunk> dlog_ = {};  // in fp64, because most of a sum cancels
  W* const dbeta_ = scratch_.take(1, kChunk);
  W* const dstates_ = scratch_.take(in_.shared * in_.key_width, of_.vp);
  W* const states_ = scratch_.take(in_.shared * (chunks_ + 1) * in_.key_width, of_.vp);
  W* const solutions_ = scratch_.take(in_.shared * chunks_ * kChunk, of_.vp);
};

void delta_rule_forward_each_type(const DeltaRuleForward& call, int64_t begin, int64_t end) {
  with_type(call.in.type, [&](auto* t) HWY_ATTR {
    for (int64_t group = begin; group < end; ++group)
      forward<std::remove_pointer_t<decltype(t)>>(call, group);
  });
}
void delta_rule_backward_each_type(const DeltaRuleBackward& call, int64_t begin, int64_t end) {
  with_type(call.in.type, [&](auto* t) HWY_ATTR {
    for (int64_t group = begin; group < end; ++group)
      Backward<std::remove_pointer_t<decltype(t)>>(call, group).run();
  });
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::fused {
HWY_EXPORT(delta_rule_forward_each_type);
HWY_EXPORT(delta_rule_backward_each_type);
void cpu::delta_rule_forward(const DeltaRuleForward& call, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(delta_rule_forward_each_type)(call, begin, end);
}
void cpu::delta_rule_backward(const DeltaRuleBackward& call, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(delta_rule_backward_each_type)(call, begin, end);
}
}  // namespace optrush::fused
#endif
