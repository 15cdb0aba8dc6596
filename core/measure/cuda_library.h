#pragma once
#include <string>

namespace optrush {
struct CudaSupport {
  bool available = false;
  std::string reason;  ///< why not
  explicit operator bool() const { return available; }
};

/// Opens libtorch_cuda.so where a driver and a GPU are present; later calls give the same answer. Before any
/// other use of CUDA: LibTorch asks only once whether that library is there, and remembers a no.
const CudaSupport& load_cuda();
}  // namespace optrush
