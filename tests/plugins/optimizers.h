#pragma once
#include <utility>

#include "optrush/param.h"
#include "support/training.h"

// Shared by the tests of optimizers.
namespace optrush::testing {
inline PluginUse use(const char* name, Json options = Json::object()) { return {name, std::move(options)}; }

/// Gives the parameter the shape and the type of `value`, and makes `value` its only shard.
inline Shard shard_of(Param& param, const Tensor& value) {
  param.shape = value.sizes().vec();
  param.dtype = value.scalar_type();
  param.layout = Layout(param.shape);
  param.leaf = value;
  return {.data = value, .grad = {}, .decay = param.decay, .segments = {{&param, param.layout, 0}}};
}
}  // namespace optrush::testing
