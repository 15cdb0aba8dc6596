#pragma once
#include "optrush/json.h"
#include "train/session.h"

namespace optrush {
/// The resolved recipe as plain data (docs/internals/forecasts.md): what the spec became after every apply(),
/// the owner and wraps of each slot, parameters, FLOPs. `session` is declared.
Json make_plan(const Session& session);
}  // namespace optrush
