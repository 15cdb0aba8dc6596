#include "model/rotary.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <stdexcept>

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
class Yarn {
 public:
  explicit Yarn(const LlamaSpec& spec) : factor_(spec.rope_scaling.factor) {
    const RopeScaling& scaling = spec.rope_scaling;
    const auto width = static_cast<double>(spec.head_size());
    const auto dimension = [&](double rotations) {
      return width *
             std::log(static_cast<double>(scaling.original_max_position) /
                      (rotations * 2 * std::numbers::pi)) /
             (2 * std::log(spec.rope_theta));
    };
    double first = dimension(scaling.beta_fast), last = dimension(scaling.beta_slow);
    if (scaling.truncate) {
      first = std::floor(first);
      last = std::ceil(last);
    }
    first_ = std::max(first, 0.0);
    last_ = std::min(last, width - 1);
    if (first_ == last_) last_ += 0.001;
  }

  double operator()(double frequency, int64_t dimension) const {
    const double ramp = std::clamp((static_cast<double>(dimension) - first_) / (last_ - first_), 0.0, 1.0);
    return frequency / factor_ * ramp + frequency * (1 - ramp);
  }

 private:
  double factor_, first_ = 0, last_ = 0;
};

/// The scaling as a function of a frequency and its dimension.
std::function<double(double, int64_t)> rescaling(const LlamaSpec& spec) {
  const RopeScaling scaling = spec.rope_scaling;
  if (scaling.factor == 1) return [](double frequency, int64_t) { return frequency; };
  switch (scaling.type) {
    case RopeType::llama3:
      return [scaling](double frequency, int64_t) { return llama3(frequency, scaling); };
    case RopeType::linear:
      return [scaling](double frequency, int64_t) { return frequency / scaling.factor; };
    case RopeType::yarn:
      return Yarn(spec);
  }
  throw std::logic_error("rope_scaling.type has no meaning");
}

/// sqrt(1 / t) = 0.1 ln(factor) + 1, for queries and keys (arXiv:2309.00071, section 3.4).
double attention_factor(const RopeScaling& scaling) {
  if (scaling.type != RopeType::yarn) return 1;
  return scaling.attention_factor != 0 ? scaling.attention_factor : 0.1 * std::log(scaling.factor) + 1;
}
}  // namespace

RotaryTable rotary_table(const LlamaSpec& spec) {
  const Tensor frequencies = at::empty({spec.head_size() / 2}, at::kDouble);
  auto* values = frequencies.mutable_data_ptr<double>();
  const auto rescaled = rescaling(spec);
  for (int64_t i = 0; i < spec.head_size() / 2; ++i)
    values[i] = rescaled(
        std::pow(spec.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(spec.head_size())), i);
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
}  // namespace optrush
