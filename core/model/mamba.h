#pragma once
#include <memory>
#include <string>

#include "optrush/param.h"
#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush {
/// Declares Mamba 2 (LlamaSpec::mamba) as a unit of role "attention".
std::unique_ptr<Unit> declare_mamba(const LlamaSpec&, Params&, const std::string& path, int64_t layer,
                                    at::ScalarType dtype);
/// FLOPs of a layer for a token, forward and backward: the recurrent form of the rule, and the convolution.
double state_flops(const Mamba2&);
}  // namespace optrush
