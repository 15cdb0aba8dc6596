#pragma once
#include <memory>
#include <string>

#include "optrush/param.h"
#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush {
/// Declares attention with heads of queries, keys and values (grouped-query attention, arXiv:2305.13245) as a
/// unit of role "attention".
std::unique_ptr<Unit> declare_attention(const LlamaSpec&, Params&, const std::string& path, int64_t layer,
                                        at::ScalarType dtype);
}  // namespace optrush
