#pragma once
#include <functional>
#include <memory>
#include <string>

#include "optrush/param.h"
#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush {
/// Declares attention with heads of queries, keys and values (grouped-query attention, arXiv:2305.13245) as a
/// unit of role "attention". In layers with LlamaSpec::shares_kv, keys and values (B, S, 2 G K) stand behind
/// the unit's input (B, S, D) in one tensor, and the unit has no matrices of them.
std::unique_ptr<Unit> declare_attention(const LlamaSpec&, Params&, const std::string& path, int64_t layer,
                                        at::ScalarType dtype);

/// Declares the keys and values that the layer of `block` makes for itself and later layers, as modules of
/// the block, whose output passes them on. Of the input of attention (B, S, D): keys, normalized and rotated,
/// and values (B, S, 2 G K).
std::function<UnitFunction(const Binder&)> declare_shared_keys(const LlamaSpec&, Params&, Unit& block,
                                                               at::ScalarType dtype);
}  // namespace optrush
