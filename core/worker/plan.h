#pragma once
#include "experiment/plan.h"
#include "train/session.h"

namespace optrush {
/// The resolved recipe as plain data, without a forecast. `session` is declared.
Plan make_plan(const Session& session);
}  // namespace optrush
