#pragma once
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distributed/ranks.h"

namespace c10d {
class ProcessGroup;
}

namespace optrush {
/// Creates c10d's group of `size` processes, with Gloo for CPU tensors and NCCL for those of a GPU `device`.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& name,
                                                          const c10::intrusive_ptr<c10d::Store>&,
                                                          int64_t rank, int64_t size, at::Device,
                                                          const Ranks&);

/// Makes a call of a collective, or waits for it. If another rank ended or is late, throws a PeerError with
/// `what`, the description of the collective. Any other error keeps its class, so that out of memory stays
/// out of memory and a wrong tensor is an error of the plugin that gave it.
void call_collective(const std::string& what, const std::function<void()>& call);

/// NCCL's backend to create: the argument of the one function of liboptrush_cuda.so.
struct NcclRequest {
  enum class Use : uint8_t {
    collectives,  ///< one communicator of all ranks, connected at creation
    links  ///< send and receive: each pair of ranks connects at its first message and has its own stream
  };
  c10::intrusive_ptr<c10d::Store> store;
  int rank, size;
  at::Device device;
  std::chrono::milliseconds timeout;
  Use use;
  c10::intrusive_ptr<c10d::Backend> made = {};
};
using MakeNccl = void(NcclRequest&);
inline constexpr const char* kMakeNccl = "optrush_make_nccl";

/// Creates it. The first call opens liboptrush_cuda.so, which needs libtorch_cuda.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(NcclRequest);
}  // namespace optrush
