#pragma once
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "distributed/ranks.h"

namespace optrush {
/// Where the ranks of a run meet: rank 0 serves a store, the others connect. Returns when all are there and
/// agree on `identity` (what they are about to run). An Error names the ranks that are missing or differ.
c10::intrusive_ptr<c10d::Store> rendezvous(const Ranks&, const std::string& identity);

/// A Skip on rank 0 where two ranks train on one GPU.
void refuse_shared_gpus(c10d::Store&, const Ranks&);

/// Each rank's text, in order of ranks, on rank 0; nothing on the others. `key` is used once in a run.
std::vector<std::string> gather_texts(c10d::Store&, const Ranks&, const std::string& key,
                                      const std::string& mine);
}  // namespace optrush
