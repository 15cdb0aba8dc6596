#include "model/init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <cmath>

namespace optrush {
namespace {
/// FNV-1a, so that the stream of a parameter depends on its name and not on its place.
uint64_t stream(uint64_t seed, const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ULL ^ (seed * 0x9e3779b97f4a7c15ULL);
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return hash;
}
}  // namespace

Initializer constant(double value) {
  return [value](Tensor& tensor, at::Generator&) { tensor.fill_(value); };
}

Initializer normal(double standard_deviation) {
  return [standard_deviation](Tensor& tensor, at::Generator& generator) {
    tensor.normal_(0, standard_deviation, generator);
  };
}

Initializer uniform_by_fan_in() {
  return [](Tensor& tensor, at::Generator& generator) {
    const double bound = 1 / std::sqrt(static_cast<double>(tensor.size(-1)));
    tensor.uniform_(-bound, bound, generator);
  };
}

Tensor initial_value(const Param& param, uint64_t seed) {
  const auto draw_type = param.dtype == at::kDouble ? at::kDouble : at::kFloat;
  Tensor value = at::empty(param.shape, draw_type);
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(stream(seed, param.name));
  param.init(value, generator);
  return value;
}
}  // namespace optrush
