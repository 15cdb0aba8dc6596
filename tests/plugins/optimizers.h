#pragma once
#include <utility>

#include "optrush/param.h"
#include "support/training.h"

// What the tests of optimizers share.
namespace optrush::testing {
inline PluginUse use(const char* name, Json options = Json::object()) { return {name, std::move(options)}; }

/// The parameter takes the shape and the type of `value`, which becomes its only shard.
inline Shard shard_of(Param& param, const Tensor& value) {
  param.shape = value.sizes().vec();
  param.dtype = value.scalar_type();
  param.layout = Layout(param.shape);
  param.leaf = value;
  return {.data = value, .grad = {}, .decay = param.decay, .segments = {{&param, param.layout, 0}}};
}
}  // namespace optrush::testing
