#include "model/rotary.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <tuple>

namespace optrush {
namespace {
/// Llama 3.1: long wavelengths are stretched by `factor`, short ones are kept, and those between are
/// interpolated.
double llama3(double frequency, const RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto context = static_cast<double>(scaling.original_max_position);
  if (wavelength < context / scaling.high_freq_factor) return frequency;
  if (wavelength > context / scaling.low_freq_factor) return frequency / scaling.factor;
  const double smooth =
      (context / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

/// YaRN (arXiv:2309.00071, section 3.2): dimensions with more than beta_fast rotations within the original
/// context are kept. Those with fewer than beta_slow are divided by `factor`. Between them is a linear ramp
/// over the dimensions.
double yarn(double frequency, int64_t dimension, const LlamaSpec& spec) {
  const RopeScaling& scaling = spec.rope_scaling;
  const auto width = static_cast<double>(spec.rotary_size());
  const auto dimension_with = [&](double rotations) {
    return width *
           std::log(static_cast<double>(scaling.original_max_position) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(spec.rope_theta));
  };
  double first = dimension_with(scaling.beta_fast), last = dimension_with(scaling.beta_slow);
  if (scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, width - 1);
  if (first == last) last += 0.001;
  const double ramp = std::clamp((static_cast<double>(dimension) - first) / (last - first), 0.0, 1.0);
  return frequency / scaling.factor * ramp + frequency * (1 - ramp);
}

double rescaled(double frequency, int64_t dimension, const LlamaSpec& spec, int64_t seq_len) {
  const RopeScaling& scaling = spec.rope_scaling;
  if (scaling.type == RopeType::proportional) {
    const auto rotated = static_cast<int64_t>(scaling.fraction * static_cast<double>(spec.rotary_size()) / 2);
    return dimension < rotated ? frequency / scaling.factor : 0;
  }
  if (scaling.type == RopeType::longrope) {
    const bool beyond = seq_len > scaling.original_max_position;
    return frequency /
           (beyond ? scaling.long_factor : scaling.short_factor).at(static_cast<size_t>(dimension));
  }
  if (scaling.factor == 1) return frequency;
  if (scaling.type == RopeType::llama3) return llama3(frequency, scaling);
  return scaling.type == RopeType::yarn ? yarn(frequency, dimension, spec) : frequency / scaling.factor;
}

/// YaRN: sqrt(1 / t) = 0.1 ln(factor) + 1, for queries and keys (arXiv:2309.00071, section 3.4). LongRoPE:
/// arXiv:2402.13753, section 3.3.
double attention_factor(const RopeScaling& scaling) {
  const bool by_length = scaling.type == RopeType::longrope;
  if (scaling.type != RopeType::yarn && !by_length) return 1;
  if (scaling.attention_factor != 0) return scaling.attention_factor;
  const double longer = std::log(scaling.factor);
  return by_length ? std::sqrt(1 + longer / std::log(static_cast<double>(scaling.original_max_position)))
                   : 0.1 * longer + 1;
}

/// Names of the cosine and sine tables for layers with a window that have their own rotary base.
constexpr const char *kWindowCos = "window_cos", *kWindowSin = "window_sin";

Ops::Position::Fn with_window_table(Ops::Position::Fn position) {
  return [position = std::move(position)](const Tensor& q, const Tensor& k, const Batch& batch) {
    Batch of_window = batch;
    of_window.cos = batch.named.at(kWindowCos);
    of_window.sin = batch.named.at(kWindowSin);
    return position(q, k, of_window);
  };
}

/// Rotates the first `width` dimensions of each head.
Ops::Position::Fn of_first_dimensions(Ops::Position::Fn position, int64_t width) {
  return [width, position = std::move(position)](const Tensor& q, const Tensor& k,
                                                 const Batch& batch) -> std::array<Tensor, 2> {
    const auto rest = [width](const Tensor& x) { return x.narrow(-1, width, x.size(-1) - width); };
    const auto [q_rotated, k_rotated] = position(q.narrow(-1, 0, width), k.narrow(-1, 0, width), batch);
    return {at::cat({q_rotated, rest(q)}, -1), at::cat({k_rotated, rest(k)}, -1)};
  };
}

/// Name of the factors (B or 1, 1, S, 1) of queries by position: RopeScaling::query_beta.
constexpr const char* kQueryScale = "query_scale";

Ops::Position::Fn with_scaled_queries(Ops::Position::Fn position) {
  return [position = std::move(position)](const Tensor& q, const Tensor& k,
                                          const Batch& batch) -> std::array<Tensor, 2> {
    auto [query, key] = position(q, k, batch);
    return {query * batch.named.at(kQueryScale).to(query.scalar_type()), key};
  };
}

/// 1 + beta ln(1 + floor(position / original length)), of shape (B or 1, 1, S, 1).
Tensor query_scale(const Tensor& positions, const RopeScaling& scaling, at::ScalarType type) {
  const Tensor lengths = at::floor(positions.to(at::kDouble) / scaling.original_max_position);
  return (1 + scaling.query_beta * at::log1p(lengths)).to(type).unsqueeze(1).unsqueeze(-1);
}
}  // namespace

RotaryTable rotary_table(const LlamaSpec& spec, int64_t seq_len) {
  const int64_t width = spec.rotary_size();
  const Tensor frequencies = at::empty({width / 2}, at::kDouble);
  auto* values = frequencies.mutable_data_ptr<double>();
  for (int64_t i = 0; i < width / 2; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(width);
    values[i] = rescaled(std::pow(spec.rope_theta, exponent), i, spec, seq_len);
  }
  return {frequencies, attention_factor(spec.rope_scaling)};
}

std::pair<Tensor, Tensor> rotary(const Tensor& positions, const RotaryTable& table, at::ScalarType dtype) {
  // Rows that are one row by expand() get one row of the tables.
  const bool equal_rows = positions.size(0) > 1 && positions.stride(0) == 0;
  const Tensor rows = equal_rows ? positions.narrow(0, 0, 1) : positions;
  const Tensor angles = rows.to(at::kDouble).unsqueeze(-1) * table.frequencies;
  const Tensor both = at::cat({angles, angles}, -1).unsqueeze(1);
  const auto scaled = [&](const Tensor& x) {
    return (table.attention_factor == 1 ? x : x * table.attention_factor).to(dtype);
  };
  return {scaled(both.cos()), scaled(both.sin())};
}

std::function<void(Batch&)> rotary_tables(const LlamaSpec& spec, int64_t seq_len, at::ScalarType type) {
  LlamaSpec of_windows = spec, of_others = spec;
  of_windows.rope_theta = spec.window_rope_theta;
  of_windows.rope_scaling = {};
  if (spec.full_attention.head_dim != 0) of_others.head_dim = spec.full_attention.head_dim;
  // Moved to the device once, because a copy per micro-batch would make the host wait.
  return [table = rotary_table(of_others, seq_len), type, scaling = spec.rope_scaling,
          window_table = spec.window_rope_theta == 0
                             ? std::nullopt
                             : std::optional(rotary_table(of_windows))](Batch& batch) mutable {
    const auto fill = [&](RotaryTable& of_layers) {
      of_layers.frequencies = of_layers.frequencies.to(batch.positions.device());
      return rotary(batch.positions, of_layers, type);
    };
    std::tie(batch.cos, batch.sin) = fill(table);
    if (window_table) std::tie(batch.named[kWindowCos], batch.named[kWindowSin]) = fill(*window_table);
    if (scaling.query_beta != 0) batch.named[kQueryScale] = query_scale(batch.positions, scaling, type);
  };
}

Ops::Position::Fn rotation_of(const LlamaSpec& spec, int64_t layer, Ops::Position::Fn rotate) {
  if (spec.window_of(layer) != 0 && spec.window_rope_theta != 0)
    rotate = with_window_table(std::move(rotate));
  if (spec.rotary_size() < spec.head_size())
    rotate = of_first_dimensions(std::move(rotate), spec.rotary_size());
  return spec.rope_scaling.query_beta != 0 ? with_scaled_queries(std::move(rotate)) : rotate;
}
}  // namespace optrush
