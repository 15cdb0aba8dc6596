#pragma once
#include <memory>
#include <string>

#include "optrush/param.h"
#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush {
/// Declares multi-head latent attention (LlamaSpec::latent) as a unit of role "attention".
std::unique_ptr<Unit> declare_latent_attention(const LlamaSpec&, Params&, const std::string& path,
                                               int64_t layer, at::ScalarType dtype);
}  // namespace optrush
