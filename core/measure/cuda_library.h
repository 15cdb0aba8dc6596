#pragma once
#include <string>

namespace optrush {
struct CudaSupport {
  bool available = false;
  std::string reason;  ///< why CUDA is not available
  explicit operator bool() const { return available; }
};

/// Opens libtorch_cuda.so if there are a driver and a GPU. Later calls return the same result. It must be
/// called before any other use of CUDA, because LibTorch checks only once whether the library is loaded.
const CudaSupport& load_cuda();
}  // namespace optrush
