#include "distributed/nccl.h"

#include <dlfcn.h>

#include <filesystem>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "measure/gpus.h"
#include "optrush/error.h"

namespace optrush {
namespace {
MakeNccl* open_maker() {
  if (const CudaSupport& cuda = load_cuda(); !cuda) throw Skip("NCCL is not available: " + cuda.reason);
  Dl_info here{};
  dladdr(reinterpret_cast<const void*>(&load_cuda), &here);
  const auto library = std::filesystem::path(here.dli_fname).parent_path() / "liboptrush_cuda.so";
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* maker = handle != nullptr ? dlsym(handle, kMakeNccl) : nullptr;
  if (maker == nullptr)
    throw Error(ErrorCode::missing_requirement, "NCCL cannot be loaded: " + std::string(dlerror()),
                "build against a LibTorch with CUDA and NCCL (headers: package nvidia-nccl-cu13)");
  return reinterpret_cast<MakeNccl*>(maker);
}
}  // namespace

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(c10::intrusive_ptr<c10d::Store> store, int64_t rank,
                                                    int64_t size, at::Device device,
                                                    std::chrono::milliseconds timeout, NcclUse use) {
  static MakeNccl* const make = open_maker();  // NOLINT: a function
  NcclRequest request{std::move(store), static_cast<int>(rank), static_cast<int>(size), device, timeout, use};
  make(request);
  return request.made;
}
}  // namespace optrush
