#pragma once
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <string>

#include "distributed/ranks.h"

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace optrush {
/// Creates c10d's group of `size` processes, with Gloo for CPU tensors and NCCL for those of a GPU `device`.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& name,
                                                          const c10::intrusive_ptr<c10d::Store>&,
                                                          int64_t rank, int64_t size, at::Device,
                                                          const Ranks&);
}  // namespace optrush
