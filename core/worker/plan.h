#pragma once
#include "experiment/plan.h"
#include "train/session.h"

namespace optrush {
/// The resolved recipe as plain data, without a forecast. declare() of `session` must have been called.
Plan make_plan(const Session& session);
}  // namespace optrush
