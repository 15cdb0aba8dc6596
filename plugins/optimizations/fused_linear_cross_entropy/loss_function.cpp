#include "loss_function.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <optional>
#include <span>

#include "cross_entropy.h"
#include "kernel_parts/tensors.h"
#include "optrush/error.h"
#include "optrush/forecast.h"

namespace optrush {
namespace {
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kBytesOnCpu = 64 * kMiB, kBytesOnGpu = 1024 * kMiB, kMostBytesOnGpu = 2048 * kMiB;
constexpr int64_t kRowsOnGpu = 4096;
/// A GPU moves and multiplies rows in whole vectors if they start at multiples of so many bytes.
constexpr int64_t kAlignment = 16;

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// `width`: entries of the vocabulary on this rank.
int64_t rows_of_chunk(int64_t chunk, const Tensor& weight, int64_t width, int64_t tokens) {
  if (chunk == kAllTokens) return tokens;
  if (chunk > 0) return std::min(chunk, tokens);
  return automatic_chunk(width * weight.element_size(), tokens, form_of(weight));
}

at::ScalarType wide_of(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// Logits (rows, V), on a GPU with rows that start at whole vectors, so that an odd vocabulary is not slower.
Tensor empty_logits(int64_t rows, const Tensor& weight) {
  const int64_t width = weight.size(0), together = kAlignment / weight.element_size();
  const int64_t stride = form_of(weight) == at::kCUDA ? ceil_of(width, together) * together : width;
  return at::empty({rows, stride}, weight.options()).narrow(1, 0, width);
}

void check_labels(const Tensor& labels, int64_t vocabulary) {
  const std::span given(labels.const_data_ptr<int64_t>(), static_cast<size_t>(labels.numel()));
  for (const int64_t label : given)
    if (label != fused::kIgnored && (label < 0 || label >= vocabulary))
      throw Error(
          ErrorCode::invalid_value,
          "a label is " + std::to_string(label) + ", but the vocabulary has " + std::to_string(vocabulary) +
              " entries",
          "labels must be 0 to " + std::to_string(vocabulary - 1) + ", or -100 for positions without a loss");
}

/// Writes the losses of the rows. If `gradient`, the gradient times the factor replaces the logits.
void cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& losses, bool gradient,
                   double soft_cap, const Tensor& factor) {
  const NotedKernel kernel("cross_entropy",
                           (gradient ? 3 : 1) * bytes_of({logits}) + bytes_of({labels, losses}));
  if (is_forecast(logits)) return;
  const fused::CrossEntropy p{.type = fused::type_of(logits, "head_loss"),
                              .logits = logits.data_ptr(),
                              .labels = labels.const_data_ptr<int64_t>(),
                              .losses = losses.data_ptr(),
                              .rows = logits.size(0),
                              .width = logits.size(1),
                              .stride = logits.stride(0),
                              .gradient = gradient,
                              .soft_cap = soft_cap,
                              .factor = factor.defined() ? factor.const_data_ptr<double>() : nullptr};
  if (logits.is_cuda()) {
    const c10::DeviceGuard guard(logits.device());
    fused::gpu::cross_entropy(p);
  } else {
    at::parallel_for(0, p.rows, fused::grain(p.width),
                     [&](int64_t begin, int64_t end) { fused::cpu::cross_entropy(p, begin, end); });
  }
}

/// Multiplies numbers that were made with `factor` by gradient / factor, unless that is 1.
void rescale(const Tensor& numbers, const Tensor& gradient, const Tensor& factor) {
  if (form_of(numbers) == at::kCUDA) {
    const NotedKernel kernel("rescale", bytes_of({gradient, factor}));
    if (is_forecast(numbers)) return;
    const c10::DeviceGuard guard(numbers.device());
    fused::gpu::rescale({.type = fused::type_of(numbers, "head_loss"),
                         .numbers = numbers.data_ptr(),
                         .gradient = gradient.const_data_ptr(),
                         .factor = factor.const_data_ptr<double>(),
                         .count = numbers.numel()});
  } else if (!is_forecast(numbers) && !at::equal(gradient, factor.to(gradient.scalar_type()))) {
    numbers.mul_(gradient / factor.to(gradient.scalar_type()));
  }
}

Tensor soft_capped(const Tensor& logits, double cap) {
  return cap == 0 ? logits : (logits / cap).tanh() * cap;
}

/// The gradient with respect to the logits before the cap, from the gradient with respect to the capped
/// logits.
Tensor before_cap(const Tensor& gradient, const Tensor& capped, double cap) {
  return cap == 0 ? gradient : gradient * (1 - (capped / cap).square());
}

/// Cross entropies of rows of logits, and the gradient of the logits.
struct Rows {
  Tensor losses, gradient;
};

Rows rows_of(const Tensor& logits, const Tensor& labels, bool gradient) {
  const Tensor valid = labels.ne(fused::kIgnored), index = labels.clamp_min(0).unsqueeze(1);
  Tensor log_p = at::log_softmax(logits, 1);
  const Tensor of_label = log_p.gather(1, index).squeeze(1);
  Rows rows{of_label.neg().mul(valid), {}};
  if (!gradient) return rows;
  Tensor& p = log_p.exp_();
  p.scatter_add_(1, index, at::full_like(of_label, -1).unsqueeze(1));
  rows.gradient = p.mul_(valid.unsqueeze(1));
  return rows;
}

Rows rows_of_part(const Tensor& logits, const Tensor& labels, bool gradient, const VocabularyPart& part) {
  const auto [lse, of_label] = over_vocabulary(logits, labels, part);
  return {(lse - of_label).mul(labels.ne(fused::kIgnored)),
          gradient ? gradient_of_part(logits, labels, lse, part) : Tensor()};
}

/// The sum in `type` of products aᵀ b; a and b have the type of the matmul.
class Accumulator {
 public:
  Accumulator(const Tensor& weight, at::ScalarType type)
      : sum_(at::empty(weight.sizes(), weight.options().dtype(type))),
        widens_(type != weight.scalar_type()),
        by_parts_(widens_ && form_of(weight) != at::kCUDA) {}

  void add(const Tensor& a, const Tensor& b) {
    if (by_parts_)
      add_part(a, b);
    else if (widens_)  // on a GPU LibTorch's product has an fp32 result, so no pass is needed to add it
      empty_ ? at::mm_out(sum_, a.t(), b, at::kFloat) : at::addmm_out(sum_, sum_, a.t(), b, at::kFloat);
    else
      empty_ ? at::mm_out(sum_, a.t(), b) : at::addmm_out(sum_, sum_, a.t(), b);
    empty_ = false;
  }
  const Tensor& sum() { return empty_ ? sum_.zero_() : sum_; }

 private:
  void add_part(const Tensor& a, const Tensor& b) {
    // The product of a chunk can overflow fp16, but not bf16.
    const bool fits = a.scalar_type() != at::kHalf;
    const Tensor part = fits ? at::mm(a.t(), b) : at::mm(a.t().to(at::kFloat), b.to(at::kFloat));
    empty_ ? sum_.copy_(part) : sum_.add_(part);
  }

  Tensor sum_;
  bool widens_, by_parts_, empty_ = true;
};

/// The gradient of the weight has the type of the matmul, as in the plain form, except fp16, which a sum over
/// all tokens can overflow.
at::ScalarType type_of_sum(const Tensor& weight) {
  return weight.scalar_type() == at::kHalf ? at::kFloat : weight.scalar_type();
}

Differentiable::Result by_kernel(const Tensor& x, const Tensor& labels, const Tensor& weight,
                                 const LossForm& form, const Tensor& factor) {
  const LossGradients wanted = form.wanted;
  const auto wide = wide_of(x);
  const Tensor rows = x.reshape({-1, x.size(-1)}), flat = labels.reshape({-1}).contiguous();
  const int64_t tokens = rows.size(0);
  if (flat.is_cpu()) check_labels(flat, weight.size(0));
  const int64_t step = rows_of_chunk(form.chunk, weight, weight.size(0), tokens);
  const Tensor losses = at::empty({tokens}, x.options().dtype(wide));
  const Tensor d_rows = wanted.x ? at::empty(rows.sizes(), x.options()) : Tensor();
  // One product is rounded once, several are summed in fp32.
  std::optional<Accumulator> d_weight;
  if (wanted.weight) d_weight.emplace(weight, step < tokens ? wide : type_of_sum(weight));
  const Tensor buffer = empty_logits(step, weight);
  for (int64_t begin = 0; begin < tokens; begin += step) {
    const int64_t count = std::min(step, tokens - begin);
    const Tensor some = rows.narrow(0, begin, count);
    Tensor logits = buffer.narrow(0, 0, count);
    at::mm_out(logits, some, weight.t());
    cross_entropy(logits, flat.narrow(0, begin, count), losses.narrow(0, begin, count),
                  wanted.x || wanted.weight, form.soft_cap, factor);
    if (wanted.x) {
      Tensor part = d_rows.narrow(0, begin, count);
      at::mm_out(part, logits, weight);
    }
    if (wanted.weight) d_weight->add(logits, some);
  }
  Differentiable::Result result{{losses.sum()}, {}};
  if (wanted.x) result.saved.push_back(d_rows.view(x.sizes()));
  if (wanted.weight) result.saved.push_back(d_weight->sum().to(type_of_sum(weight)));
  return result;
}
}  // namespace

int64_t automatic_chunk(int64_t row_bytes, int64_t tokens, at::DeviceType device) {
  const auto rows_in = [&](int64_t bytes) { return std::max<int64_t>(1, bytes / row_bytes); };
  const int64_t most = device == at::kCUDA
                           ? std::max(rows_in(kBytesOnGpu), std::min(kRowsOnGpu, rows_in(kMostBytesOnGpu)))
                           : rows_in(kBytesOnCpu);
  return tokens == 0 ? 1 : ceil_of(tokens, ceil_of(tokens, most));
}

Differentiable::Result linear_cross_entropy_by_operators(const Tensor& x, const Tensor& labels,
                                                         const Tensor& weight, const LossForm& form,
                                                         const std::optional<VocabularyPart>& part,
                                                         const Tensor& factor) {
  const LossGradients wanted = form.wanted;
  const auto wide = wide_of(x);
  const Tensor rows = x.reshape({-1, x.size(-1)}), flat = labels.reshape({-1});
  // Each chunk is summed over the ranks, so all ranks have the same number of chunks.
  const int64_t tokens = rows.size(0), width = part ? part->widest : weight.size(0),
                step = rows_of_chunk(form.chunk, weight, width, tokens);
  Tensor loss = at::zeros({}, x.options().dtype(wide)), d_weight;
  Tensors d_rows;
  for (int64_t begin = 0; begin < tokens; begin += step) {
    const int64_t count = std::min(step, tokens - begin);
    const Tensor some = rows.narrow(0, begin, count), given = flat.narrow(0, begin, count);
    const Tensor products = at::mm(some, weight.t());
    Tensor logits = soft_capped(products.to(wide), form.soft_cap);
    const bool gradient = wanted.x || wanted.weight;
    const auto [losses, of_logits] =
        part ? rows_of_part(logits, given, gradient, *part) : rows_of(logits, given, gradient);
    loss = loss + losses.sum();
    if (!gradient) continue;
    if (form.soft_cap == 0) logits.reset();  // before the products allocate memory
    Tensor d_logits = before_cap(of_logits, logits, form.soft_cap);
    if (factor.defined()) d_logits = d_logits * factor;
    d_logits = d_logits.to(products.scalar_type());
    if (wanted.x) d_rows.push_back(at::mm(d_logits, weight));
    if (!wanted.weight) continue;
    const Tensor of_chunk = at::mm(d_logits.t(), some).to(wide);
    d_weight = d_weight.defined() ? d_weight.add_(of_chunk) : of_chunk;
  }
  Differentiable::Result result{{loss}, {}};
  if (wanted.x)
    result.saved.push_back((d_rows.size() == 1 ? d_rows.front() : at::cat(d_rows)).view(x.sizes()));
  if (wanted.weight) result.saved.push_back(d_weight.to(type_of_sum(weight)));
  return result;
}

Differentiable::Result linear_cross_entropy(const Tensor& x, const Tensor& labels, const Tensor& weight,
                                            const LossForm& form, const Tensor& factor) {
  const bool has_kernel = x.is_cpu() || x.is_cuda() || is_forecast(x);
  return has_kernel && !tracing() ? by_kernel(x, labels, weight, form, factor)
                                  : linear_cross_entropy_by_operators(x, labels, weight, form, {}, factor);
}

Differentiable make_loss_function(const LossForm& form, const std::optional<VocabularyPart>& part) {
  return {{.name = "linear_cross_entropy",
           .forward =
               [=](const Tensors& in) {
                 const Tensor factor = in.size() > 3 ? in[3] : Tensor();
                 auto result =
                     part ? linear_cross_entropy_by_operators(in[0], in[1], in[2], form, part, factor)
                          : linear_cross_entropy(in[0], in[1], in[2], form, factor);
                 if (factor.defined()) result.saved.push_back(factor);
                 return result;
               },
           .backward = [wanted = form.wanted](const Tensors& saved, const Tensors& gradients) -> Tensors {
             const size_t count = (wanted.x ? 1 : 0) + (wanted.weight ? 1 : 0);
             const bool has_factor = saved.size() > count;
             size_t next = 0;
             const auto scaled = [&](bool made) -> Tensor {
               if (!made) return {};
               const Tensor& gradient = saved[next++];
               if (tracing()) return gradient * (has_factor ? gradients[0] / saved[count] : gradients[0]);
               if (!has_factor) return gradient.mul_(gradients[0]);
               rescale(gradient, gradients[0], saved[count]);
               return gradient;
             };
             Tensor d_x = scaled(wanted.x);
             Tensors all = {d_x, Tensor(), scaled(wanted.weight)};
             if (has_factor) all.emplace_back();
             return all;
           },
           .traits = {.trace = Trace::pair, .capturable = true, .offers = {feature::fp64}},
           .cast = Cast::lower}};
}
}  // namespace optrush
