#pragma once
#include <memory>
#include <string>

#include "optrush/gpu_kernel.h"

namespace optrush {
/// NVIDIA's run-time compiler, opened when a kernel is first compiled: nothing is linked. Its interface is
/// stable, and its header is part of the toolkit only.
class Nvrtc {
 public:
  /// The one of this process. An Error says where it was looked for.
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
