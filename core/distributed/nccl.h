#pragma once
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace optrush {
/// Purpose of a backend.
enum class NcclUse : uint8_t {
  collectives,  ///< one communicator of all ranks, connected at once
  links  ///< send and receive: each pair of ranks connects when it first does, with a stream of its own
};

/// NCCL for tensors on `device`. It is made by liboptrush_cuda.so, which is opened at the first call: it
/// needs libtorch_cuda, and a CPU run does not load that.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(c10::intrusive_ptr<c10d::Store>, int64_t rank,
                                                    int64_t size, at::Device device,
                                                    std::chrono::milliseconds timeout, NcclUse);

/// The exports of liboptrush_cuda.so.
struct NcclRequest {
  c10::intrusive_ptr<c10d::Store> store;
  int rank, size;
  at::Device device;
  std::chrono::milliseconds timeout;
  NcclUse use;
  c10::intrusive_ptr<c10d::Backend> made = {};
};
using MakeNccl = void(NcclRequest&);
inline constexpr const char* kMakeNccl = "optrush_make_nccl";
}  // namespace optrush
