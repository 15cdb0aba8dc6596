#include "gpu.h"

#include "optrush/error.h"
#ifdef OPTRUSH_HAS_CUDA
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

namespace optrush::cublaslt_matmul {
#ifdef OPTRUSH_HAS_CUDA
void* current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

std::string name_of_card(at::Device device) {
  cudaDeviceProp properties{};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, device.index()); status != cudaSuccess)
    throw Error(ErrorCode::internal, std::string("CUDA: ") + cudaGetErrorString(status));
  return properties.name;
}
#else
namespace {
[[noreturn]] void needs_cuda() {
  throw Error(ErrorCode::missing_requirement,
              "cublaslt_matmul needs a CUDA build of LibTorch; this one has none");
}
}  // namespace
void* current_stream() { needs_cuda(); }
std::string name_of_card(at::Device) { needs_cuda(); }
#endif
}  // namespace optrush::cublaslt_matmul
