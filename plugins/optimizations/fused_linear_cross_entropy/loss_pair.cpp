#include "loss_pair.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "optrush/forecast.h"

namespace optrush {
namespace {
constexpr int64_t kIgnored = -100;
constexpr int64_t kBytesOnCpu = int64_t{64} << 20, kBytesOnGpu = int64_t{512} << 20;

struct Chunk {
  Tensor loss;      ///< sum
  Tensor d_logits;  ///< of the sum by the logits, in their type
};

/// Softmax and loss in fp32 at least.
Chunk loss_of(const Tensor& logits, const Tensor& labels, at::ScalarType wide, bool with_gradient) {
  const Tensor valid = labels.ne(kIgnored);
  const Tensor index = labels.clamp_min(0).unsqueeze(1);
  Tensor log_p = at::log_softmax(logits.to(wide), 1);
  const Tensor of_label = log_p.gather(1, index).squeeze(1);
  Chunk chunk{-of_label.mul(valid).sum(), {}};
  if (with_gradient) {
    Tensor& d_logits = log_p.exp_();
    d_logits.scatter_add_(1, index, at::full_like(of_label, -1).unsqueeze(1));
    chunk.d_logits = d_logits.mul_(valid.unsqueeze(1)).to(logits.scalar_type());
  }
  return chunk;
}

/// sum (fp32 at least) += a b
void accumulate(Tensor& sum, const Tensor& a, const Tensor& b, at::ScalarType wide) {
  if (!sum.defined()) {
    sum = at::mm(a, b).to(wide);
  } else if (a.scalar_type() == wide) {
    sum.addmm_(a, b);
  } else {
    sum.add_(at::mm(a, b));
  }
}
}  // namespace

int64_t automatic_chunk(const Tensor& weight) {
  const int64_t row = weight.size(0) * (weight.scalar_type() == at::kDouble ? 8 : 4);
  return std::max<int64_t>(1, (form_of(weight) == at::kCUDA ? kBytesOnGpu : kBytesOnCpu) / row);
}

Differentiable::Result linear_cross_entropy(const Tensor& x, const Tensor& labels, const Tensor& weight,
                                            int64_t chunk, Gradients wanted) {
  const auto wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor rows = x.reshape({-1, x.size(-1)}), flat = labels.reshape({-1});
  const int64_t step = chunk > 0 ? chunk : automatic_chunk(weight);
  Tensor loss = at::zeros({}, x.options().dtype(wide)), d_weight;
  Tensors d_rows;
  for (int64_t begin = 0; begin < rows.size(0); begin += step) {
    const int64_t count = std::min(step, rows.size(0) - begin);
    const Tensor some = rows.narrow(0, begin, count);
    const auto [part, d_logits] =
        loss_of(at::mm(some, weight.t()), flat.narrow(0, begin, count), wide, wanted.x || wanted.weight);
    loss = loss + part;
    if (wanted.x) d_rows.push_back(at::mm(d_logits, weight));
    if (wanted.weight) accumulate(d_weight, d_logits.t(), some, wide);
  }
  Differentiable::Result result{{loss}, {}};
  if (wanted.x)
    result.saved.push_back((d_rows.size() == 1 ? d_rows.front() : at::cat(d_rows)).view(x.sizes()));
  // As the plain form's: in the type of the matmul, but not fp16, which a sum over all tokens can overflow.
  const auto kept = weight.scalar_type() == at::kHalf ? wide : weight.scalar_type();
  if (wanted.weight) result.saved.push_back(d_weight.to(kept));
  return result;
}

Differentiable make_loss_pair(int64_t chunk, bool weight_trained) {
  return {.name = "linear_cross_entropy",
          .forward =
              [=](const Tensors& in) {
                return linear_cross_entropy(in[0], in[1], in[2], chunk, {.weight = weight_trained});
              },
          .backward = [](const Tensors& saved, const Tensors& gradients) -> Tensors {
            const auto scaled = [&](Tensor gradient) {
              return tracing() ? gradient * gradients[0] : gradient.mul_(gradients[0]);
            };
            return {scaled(saved[0]), Tensor(), saved.size() > 1 ? scaled(saved[1]) : Tensor()};
          },
          .traits = {.trace = Trace::pair, .capturable = true, .offers = {"double"}},
          .cast = Cast::lower};
}
}  // namespace optrush
