#include "model/rotary.h"

#include <ATen/Functions.h>

#include <cmath>
#include <numbers>

namespace optrush {
namespace {
/// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between interpolated.
double rescale(double frequency, const RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto context = static_cast<double>(scaling.original_max_position);
  if (wavelength < context / scaling.high_freq_factor) return frequency;
  if (wavelength > context / scaling.low_freq_factor) return frequency / scaling.factor;
  const double smooth =
      (context / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}
}  // namespace

Tensor inverse_frequencies(const LlamaSpec& spec) {
  const Tensor frequencies = at::empty({spec.head_size() / 2}, at::kDouble);
  auto* values = frequencies.mutable_data_ptr<double>();
  for (int64_t i = 0; i < spec.head_size() / 2; ++i) {
    values[i] =
        std::pow(spec.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(spec.head_size()));
    if (spec.rope_scaling.factor != 1) values[i] = rescale(values[i], spec.rope_scaling);
  }
  return frequencies;
}

void fill_rotary(Batch& batch, const Tensor& inverse_frequencies, at::ScalarType dtype) {
  const Tensor angles = batch.positions.to(at::kDouble).unsqueeze(-1) * inverse_frequencies;
  const Tensor both = at::cat({angles, angles}, -1).unsqueeze(1);
  batch.cos = both.cos().to(dtype);
  batch.sin = both.sin().to(dtype);
}
}  // namespace optrush
