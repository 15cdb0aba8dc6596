#pragma once
#include <utility>

#include "support/training.h"

// What the tests of optimizers share.
namespace optrush::testing {
inline PluginUse use(const char* name, Json options = Json::object()) { return {name, std::move(options)}; }
}  // namespace optrush::testing
