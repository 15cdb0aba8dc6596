#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "optrush/spec.h"

namespace optrush {
struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};
/// Names and shapes of a decoder's parameters, the same as core/model/llama.cpp declares, but without
/// LibTorch, so that scripts can check a checkpoint.
std::vector<NamedShape> llama_parameters(const LlamaSpec&);
}  // namespace optrush
