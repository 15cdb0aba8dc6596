#pragma once
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "distributed/ranks.h"

namespace optrush {
/// Connects the ranks of a run: rank 0 serves a store and the others connect to it. Returns when all ranks
/// are there and agree on `identity`, a description of the run. An Error names missing or differing ranks.
c10::intrusive_ptr<c10d::Store> rendezvous(const Ranks&, const std::string& identity);

/// The largest number of ranks on one GPU. Throws a Skip on rank 0 unless OPTRUSH_SHARE_GPU allows several.
int64_t ranks_of_one_gpu(c10d::Store&, const Ranks&);

/// Sets the variables with which NCCL connects ranks on one GPU: each rank has a host of its own, and sockets
/// are the network. Variables that the user has set stay. Called before NCCL is opened.
void let_ranks_share_a_gpu(const Ranks&);

/// Gathers a text from each rank at rank 0, in order. `key` may be used only once in a run. Ranks wait
/// `limit` for each other; 0: the time of a collective. All throw a PeerError that names a late one.
std::vector<std::string> gather_texts(c10d::Store&, const Ranks&, const std::string& key,
                                      const std::string& mine, std::chrono::milliseconds limit = {});
}  // namespace optrush
