// The chunked form of Gated DeltaNet (arXiv:2412.06464, section 3.3). Within a chunk, the decay since its
// start is gamma, D_ij = gamma_i / gamma_j for i >= j, and the corrected values of all positions solve
// (I + tril(diag(beta) (K K^T * D), -1)) X = diag(beta) (V - diag(gamma) K S) for the state S before the
// chunk. Then O = diag(gamma) Q S + (Q K^T * D) X, and the next state is gamma_C S + (diag(gamma_C / gamma)
// K)^T X. Without correction, X = diag(beta) V (arXiv:2405.21060, section 6). Shapes: N chunks of C
// positions; other letters as in DeltaRuleInputs.
#include "model/delta_rule.h"

#include <ATen/Functions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/operators.h"

namespace optrush::plain {
namespace {
constexpr double kEpsOfLength = 1e-6;  // below the square of a length

Tensor of_length_1(const Tensor& x) {
  return x * (x.square().sum(-1, /*keepdim=*/true) + kEpsOfLength).rsqrt();
}

/// (B, H, S, ..) to (B, H, N, C, ..), with zeros behind the last position.
Tensor in_chunks(const Tensor& x, int64_t chunk) {
  const int64_t missing = (chunk - x.size(2) % chunk) % chunk;
  if (missing == 0) return x.unflatten(2, {-1, chunk});
  std::vector<int64_t> pad(static_cast<size_t>(2 * (x.dim() - 2)), 0);
  pad.back() = missing;
  return at::constant_pad_nd(x, pad).unflatten(2, {-1, chunk});
}

/// A head of keys for each head of values.
Tensor for_each_value(const Tensor& x_BGSK, int64_t heads) {
  const int64_t shared = heads / x_BGSK.size(1);
  return shared == 1 ? x_BGSK : x_BGSK.unsqueeze(2).expand({-1, -1, shared, -1, -1}).flatten(1, 2);
}

/// X of each chunk is `values` - `of_state` S; undefined: nothing of S.
struct Corrected {
  Tensor values_BHNCV, of_state_BHNCK;
};

/// Decays between positions; 0 between documents.
struct Decays {
  Tensor within_BHNCC;  ///< from a position of a chunk to a later one: D
  Tensor before_BHNC;   ///< from the last position before a chunk: gamma
};

Decays decays_of(const Tensor& log_BHNC, const Tensor& documents_B1NC) {
  const Tensor sum = log_BHNC.cumsum(-1);
  Decays decays{(sum.unsqueeze(-1) - sum.unsqueeze(-2)).tril().exp().tril(), sum.exp()};
  if (!documents_B1NC.defined()) return decays;
  const Tensor last_B1N = documents_B1NC.select(-1, -1);
  const Tensor before_B1N =
      at::cat({last_B1N.narrow(2, 0, 1), last_B1N.narrow(2, 0, last_B1N.size(2) - 1)}, 2);
  decays.within_BHNCC = decays.within_BHNCC * documents_B1NC.unsqueeze(-1).eq(documents_B1NC.unsqueeze(-2));
  decays.before_BHNC = decays.before_BHNC * documents_B1NC.eq(before_B1N.unsqueeze(-1));
  return decays;
}

/// The solutions for S = 0, and for V = 0 and S = -I.
Corrected corrected(const Tensor& stepped_BHNCK, const Tensor& k_BHNCK, const Tensor& values_BHNCV,
                    const Decays& decays) {
  const Tensor couplings_BHNCC = (at::matmul(stepped_BHNCK, k_BHNCK.mT()) * decays.within_BHNCC).tril(-1);
  const Tensor sides = at::cat({values_BHNCV, decays.before_BHNC.unsqueeze(-1) * stepped_BHNCK}, -1);
  const auto solved = at::linalg_solve_triangular(couplings_BHNCC, sides, /*upper=*/false, /*left=*/true,
                                                  /*unitriangular=*/true)
                          .split_with_sizes({values_BHNCV.size(-1), k_BHNCK.size(-1)}, -1);
  return {solved[0], solved[1]};
}
}  // namespace

Tensor gated_delta_rule(const DeltaRuleInputs& in, int64_t chunk) {
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  const auto type = accumulate_type(in.v);
  const int64_t positions = in.v.size(2), heads = in.v.size(1);
  chunk = std::min(chunk, positions);
  const auto chunks_of = [&](const Tensor& x) { return in_chunks(x.to(type), chunk); };
  const auto keys = [&](const Tensor& x) {
    const Tensor wide = x.to(type);
    return chunks_of(for_each_value(in.corrects ? of_length_1(wide) : wide, heads));
  };
  const double scale = in.corrects ? 1 / std::sqrt(static_cast<double>(in.q.size(-1))) : 1;
  const Tensor q_BHNCK = keys(in.q) * scale, k_BHNCK = keys(in.k), v_BHNCV = chunks_of(in.v);
  const Tensor beta_BHNC1 = chunks_of(in.beta).unsqueeze(-1);
  const Decays decays =
      decays_of(chunks_of(in.log_decay),
                in.documents.defined() ? in_chunks(in.documents.unsqueeze(1), chunk) : Tensor());
  Corrected x{beta_BHNC1 * v_BHNCV, {}};
  if (in.corrects) x = corrected(beta_BHNC1 * k_BHNCK, k_BHNCK, x.values_BHNCV, decays);

  const auto of_chunks = [](const Tensor& x) { return x.unbind(2); };
  const auto values = of_chunks(x.values_BHNCV);
  const auto of_state = in.corrects ? of_chunks(x.of_state_BHNCK) : Tensors();
  const auto scores = of_chunks(at::matmul(q_BHNCK, k_BHNCK.mT()) * decays.within_BHNCC);
  const auto queries = of_chunks(decays.before_BHNC.unsqueeze(-1) * q_BHNCK);
  const auto to_state = of_chunks((decays.within_BHNCC.select(-2, -1).unsqueeze(-1) * k_BHNCK).mT());
  const auto kept = of_chunks(decays.before_BHNC.narrow(-1, chunk - 1, 1).unsqueeze(-1));
  Tensors out(values.size());
  Tensor state_BHKV;  // undefined: 0
  for (size_t n = 0; n < out.size(); ++n) {
    const bool first = n == 0, last = n + 1 == out.size();
    const Tensor x_BHCV = first || !in.corrects ? values[n] : values[n] - at::matmul(of_state[n], state_BHKV);
    out[n] = at::matmul(scores[n], x_BHCV);
    if (!first) out[n] = out[n] + at::matmul(queries[n], state_BHKV);
    if (last) break;
    const Tensor added_BHKV = at::matmul(to_state[n], x_BHCV);
    state_BHKV = first ? added_BHKV : kept[n] * state_BHKV + added_BHKV;
  }
  return at::cat(out, 2).narrow(2, 0, positions).to(in.v.scalar_type());
}

Tensor causal_convolution(const Tensor& x, const Tensor& weight, const Tensor& documents) {
  const int64_t before = weight.size(-1) - 1, positions = x.size(1);
  const Tensor padded = at::constant_pad_nd(x, {0, 0, before, 0});
  const Tensor of_padded = documents.defined() ? at::constant_pad_nd(documents, {before, 0}, -1) : Tensor();
  Tensor sum;
  for (int64_t tap = 0; tap <= before; ++tap) {
    Tensor seen = padded.narrow(1, tap, positions);
    if (documents.defined() && tap != before)
      seen = seen * documents.eq(of_padded.narrow(1, tap, positions)).unsqueeze(-1);
    const Tensor part = seen * weight.select(-1, tap).flatten();
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}
}  // namespace optrush::plain
