#pragma once
#include <c10/core/Allocator.h>

#include <atomic>

#include "simulated/device.h"

namespace optrush::simulated {
inline const c10::Device kDevice{c10::kPrivateUse1, 0};

/// What LibTorch's registries point to: one a process, as these are.
struct State {
  std::atomic<Values> values{Values::none};
  std::atomic<at::DeviceType> form{at::kPrivateUse1};
  std::atomic<int64_t> allocated{0}, peak{0};
  std::atomic<int64_t> operators{0}, copies{0}, waits{0};
  static State& instance();
};

c10::Allocator& allocator();
void register_hooks();
void register_kernels();
void register_autocast();
}  // namespace optrush::simulated
