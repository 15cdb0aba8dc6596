#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>

/// A device without hardware, registered as LibTorch's PrivateUse1: it is not the CPU, has an autocast of its
/// own, and refuses operators that mix it with the CPU, as a GPU does. Of its two kinds, one runs every
/// operator on shapes alone and counts the bytes that tensors would take: a step forecast without memory or
/// time. The other keeps values in host memory and computes with the CPU's kernels: what would go wrong on a
/// GPU because it is another device goes wrong there.
namespace optrush::simulated {
enum class Values : uint8_t {
  none,  ///< sizes, strides and types alone
  host   ///< in host memory
};

/// The device whose operators and memory are simulated: kCPU, or kCUDA with an architecture such as "sm_90".
struct Form {
  // NOLINTNEXTLINE(google-explicit-constructor): a kind of device is one
  Form(at::DeviceType of_type = at::kPrivateUse1, std::string of_architecture = "sm_90")
      : type(of_type), architecture(std::move(of_architecture)) {}
  at::DeviceType type;
  std::string architecture;
};

/// Makes it the device of this process, of this kind from now on; "simulated:0". Memory is counted from zero.
/// Tensors of the other kind must be gone.
at::Device open(Values, Form = {});

Values values();
const Form& form();

/// Bytes of the device. In the form of a GPU they lie in blocks of LibTorch's caching allocator, and each
/// thread that multiplies has a workspace of cuBLAS for each of its streams.
struct Memory {
  int64_t tensors = 0;     ///< as they were asked for
  int64_t rounding = 0;    ///< of tensors to blocks
  int64_t workspaces = 0;  ///< of cuBLAS
  int64_t total() const { return tensors + rounding + workspaces; }
};
Memory allocated();
/// When the total was largest.
Memory peak();
/// That the allocator has taken from the driver. 0 in the form of a CPU.
int64_t reserved();
/// Largest sum of pinned host memory, by the powers of two that LibTorch's allocator takes for each block.
int64_t peak_pinned();
/// Starts a new peak at the present use.
void reset_peak();

/// Counts of the device's work, at its execution.
struct Counts {
  int64_t operators = 0;  ///< that computed something
  int64_t copies = 0;     ///< between it and the host
  int64_t waits = 0;      ///< of the host for it: values that are read, copies that block, synchronization
};
Counts counts();
void reset_counts();
}  // namespace optrush::simulated
