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
/// Names and shapes of a decoder's parameters, those that core/model/llama.cpp declares.
/// Without LibTorch: scripts check a checkpoint by them.
std::vector<NamedShape> llama_parameters(const LlamaSpec&);
}  // namespace optrush
