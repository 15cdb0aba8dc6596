#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush::lora {
/// Checks that the adapter of a PEFT folder computes the same as one with these options. `config` has the
/// fields of adapter_config.json. An Error lists the options to set.
void check_adapter(const std::string& folder, const Json& config);
}  // namespace optrush::lora
