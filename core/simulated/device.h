#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

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

/// Makes it the device of this process, of this kind from now on; "simulated:0". `form`: whose form operators
/// take on it (optrush/forecast.h). Tensors of the other kind must be gone.
at::Device open(Values, at::DeviceType form = at::kPrivateUse1);

Values values();
at::DeviceType form();

/// Bytes of its tensors, as they were asked for.
int64_t allocated();
int64_t peak();
/// Starts a new peak at the present use.
void reset_peak();

/// What reached the device, counted where it is carried out.
struct Counts {
  int64_t operators = 0;  ///< that computed something
  int64_t copies = 0;     ///< between it and the host
  int64_t waits = 0;      ///< of the host for it: values that are read, copies that block, synchronization
};
Counts counts();
void reset_counts();
}  // namespace optrush::simulated
