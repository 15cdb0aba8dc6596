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
  collectives,  ///< one communicator of all ranks, connected at creation
  links         ///< send and receive: each pair of ranks connects at its first message and has its own stream
};

/// Creates NCCL's backend for `device`. The first call opens liboptrush_cuda.so, which needs libtorch_cuda.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(c10::intrusive_ptr<c10d::Store>, int64_t rank,
                                                    int64_t size, at::Device device,
                                                    std::chrono::milliseconds timeout, NcclUse);

/// The interface of liboptrush_cuda.so: one function with this argument.
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
