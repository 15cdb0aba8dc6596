#pragma once
#include <c10/core/Event.h>

#include <array>
#include <optional>

#include "base/part_times.h"
#include "optrush/tensor.h"

namespace optrush {
/// Copies tensors of the host to a device. To a GPU they go in pieces through two pinned buffers, one filled
/// by all threads while the GPU reads the other. LibTorch keeps pinned memory and rounds it up to a power of
/// two, so to pin whole tensors would hold up to twice the largest.
class Upload {
 public:
  /// `times` takes the seconds of the copies to a GPU; it lives as long as the Upload.
  explicit Upload(at::Device device, PartTimes* times = nullptr)
      : device_(device), times_(times != nullptr ? times : &own_times_) {}
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  /// On the device, in the tensor's type; the tensor itself where it is there. It may be freed after the
  /// call.
  Tensor operator()(const Tensor& host);

 private:
  struct Buffer {
    Tensor pinned;                   ///< bytes
    std::optional<c10::Event> read;  ///< when the GPU has read them
  };
  at::Device device_;
  PartTimes own_times_, *times_;
  std::array<Buffer, 2> buffers_;
  size_t next_ = 0;
};
}  // namespace optrush
