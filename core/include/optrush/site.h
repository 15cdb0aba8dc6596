#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace optrush {
struct Param;

/// A place in the model where one operator is called: "model.layers.3.self_attn.q_proj". Paths are Hugging
/// Face's module names, so `q_proj` selects what it selects there. Plugins may append parameters in
/// Event::declared.
struct Site {
  std::string path;
  std::string role;    ///< linear, norm, add_norm, embedding, position, attention, swiglu, mlp, head_loss
  int64_t layer = -1;  ///< number of the block that it is in
  std::vector<Param*> params;  ///< first those of the plain operator (weight, bias), then what plugins added
};
}  // namespace optrush
