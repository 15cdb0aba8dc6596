#pragma once
#include "model/model.h"

namespace optrush {
class Recipe;

Model declare_llama(const LlamaSpec&, Params&, at::ScalarType dtype);
/// Demands the features of attention that this decoder needs for sequences of `seq_len`, and counts the rows
/// of its routers.
void edit_for_llama(const LlamaSpec&, int64_t seq_len, Recipe&);
}  // namespace optrush
