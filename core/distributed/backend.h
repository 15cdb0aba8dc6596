#pragma once
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <string>

#include "distributed/ranks.h"

namespace c10d {
class Backend;
class ProcessGroup;
class Store;
}  // namespace c10d

namespace optrush {
/// c10d's group of `size` processes: Gloo for tensors on a CPU and, on a GPU, NCCL for those there.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& name,
                                                          const c10::intrusive_ptr<c10d::Store>&,
                                                          int64_t rank, int64_t size, at::Device,
                                                          const Ranks&);
/// What sends and receives of a group on a GPU go through: pairs of ranks do not wait for each other, as they
/// would in the group's one communicator.
c10::intrusive_ptr<c10d::Backend> make_links(const c10::intrusive_ptr<c10d::Store>&, int64_t rank,
                                             int64_t size, at::Device, const Ranks&);
}  // namespace optrush
