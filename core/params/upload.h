#pragma once
#include <c10/core/Event.h>

#include <array>
#include <optional>

#include "base/part_times.h"
#include "optrush/tensor.h"

namespace optrush {
/// Copies host tensors to a device. Copies to a GPU go through two pinned buffers: all threads fill one while
/// the GPU reads the other. Pinning whole tensors would take up to twice the memory of the largest one,
/// because LibTorch keeps pinned memory and rounds it up to a power of two.
class Upload {
 public:
  /// `times` receives the seconds of copies to a GPU and must outlive the Upload.
  Upload(at::Device device, PartTimes& times) : device_(device), times_(times) {}
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  /// The tensor on the device, in the same type: `host` itself if it is there. `host` may then be freed. Of
  /// a tensor on the meta device it makes only the memory.
  Tensor operator()(const Tensor& host);

 private:
  struct Buffer {
    Tensor pinned;                   ///< a flat tensor of bytes
    std::optional<c10::Event> read;  ///< recorded behind the GPU's read of the buffer
  };
  at::Device device_;
  PartTimes& times_;
  std::array<Buffer, 2> buffers_;
  size_t next_ = 0;
};
}  // namespace optrush
