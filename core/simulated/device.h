#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>

/// A device without hardware, registered as LibTorch's PrivateUse1. Like a GPU, it is not the CPU, has its
/// own autocast, and refuses operators that mix it with the CPU. It has two kinds. `none` runs operators on
/// shapes only and counts the bytes of tensors: a forecast of a step without memory or time. `host` keeps
/// values in host memory and computes with CPU kernels, so code that takes a GPU for the CPU fails here.
namespace optrush::simulated {
enum class Values : uint8_t {
  none,  ///< only sizes, strides and types
  host   ///< values in host memory
};

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
/// Opens "simulated:0" with this kind and form and resets its counters. No tensor of another kind may exist.
at::Device open(Values, Form = {});

Values values();
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

/// Counts of work that the device has executed.
struct Counts {
  int64_t operators = 0;  ///< operators that computed something
  int64_t copies = 0;     ///< copies between device and host
  int64_t waits = 0;      ///< waits of the host: reads of values, blocking copies, synchronization
};
Counts counts();
void reset_counts();
}  // namespace optrush::simulated
