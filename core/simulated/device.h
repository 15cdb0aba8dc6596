#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>

/// A device without hardware, registered as LibTorch's PrivateUse1. Like a GPU, it is not the CPU, has its
/// own autocast, and refuses operators that mix it with the CPU. Its tensors have sizes, strides and types,
/// but no values. It counts their bytes: a forecast of a step without memory or time.
namespace optrush::simulated {
/// The kind of device that is simulated: kCPU, or kCUDA with an architecture such as "sm_90".
struct Form {
  // NOLINTNEXTLINE(google-explicit-constructor): a kind of device is one
  Form(at::DeviceType of_type = at::kPrivateUse1, std::string of_architecture = "sm_90")
      : type(of_type), architecture(std::move(of_architecture)) {}
  at::DeviceType type;
  std::string architecture;
};

/// Registers the device in LibTorch, which changes the tables of all operators. open() calls it.
void register_device();
/// Opens "simulated:0" in this form, with empty memory.
at::Device open(Form = {});
const Form& form();

/// Bytes of the device's memory. A simulated GPU has blocks of LibTorch's caching allocator, and a cuBLAS
/// workspace for each thread that multiplies and each of its streams.
struct Memory {
  int64_t tensors = 0;     ///< requested bytes
  int64_t rounding = 0;    ///< difference between blocks and requests
  int64_t workspaces = 0;  ///< workspaces of cuBLAS
  int64_t total() const { return tensors + rounding + workspaces; }
};
Memory allocated();
/// The memory at the time of the largest total.
Memory peak();
/// Bytes that the allocator has taken from the driver; 0 for a simulated CPU.
int64_t reserved();
/// Peak of pinned host memory, with each block rounded up to a power of two as in LibTorch's allocator.
int64_t peak_pinned();
/// Sets the peaks to the present use.
void reset_peak();
}  // namespace optrush::simulated
