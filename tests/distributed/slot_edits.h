#pragma once
#include <string>
#include <vector>

#include "optrush/recipe.h"

namespace optrush::testing {
/// The kinds of edits of a slot that computes numbers of the model: a wrap inside of all others, one inside
/// of the wraps of the same strategies ("context", by a plugin whose name sorts first), one outside of all,
/// and a base.
std::vector<std::string> edit_kinds();
/// Weighs the output of attention by the sigmoid of its log-sum-exp, as a learned sink of value 0 does.
void weigh_by_lse(Recipe&);
/// Edits a slot, so that its result is 1.25 times as large, or a training differs in another way. Returns
/// false if the slot is not known here, or has no such edit.
bool edit_slot(Recipe&, const std::string& slot, const std::string& kind);
}  // namespace optrush::testing
