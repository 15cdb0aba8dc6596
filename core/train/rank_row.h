#pragma once
#include "train/session.h"

namespace optrush {
/// Adds to rank 0's result what the ranks tell of themselves, "ranks", and the "mesh", and makes what they
/// counted alone that of all: operations, energy, counters of plugins. Every rank calls it; nothing happens
/// where there is one.
void add_ranks(Json& result, Session&, const std::string& device);
}  // namespace optrush
