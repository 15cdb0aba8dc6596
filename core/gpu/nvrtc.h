#pragma once
#include <memory>
#include <string>

#include "optrush/gpu_kernel.h"

namespace optrush {
/// NVIDIA's run-time compiler. The library is opened when a kernel is first compiled. Its functions are
/// declared here, because the header is only in the CUDA toolkit; the API is stable.
class Nvrtc {
 public:
  /// The compiler of this process. Throws an Error that lists the searched places if there is none.
  static const Nvrtc& open();

  const std::string& version() const { return version_; }  ///< "13.0"
  GpuCode compile(const GpuSource&, const std::string& kernel, const std::string& architecture) const;

 private:
  struct Functions;
  Nvrtc();
  ~Nvrtc();
  std::unique_ptr<const Functions> call_;
  std::string version_;
};
}  // namespace optrush
