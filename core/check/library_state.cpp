#include "check/library_state.h"

#include <ATen/Context.h>

#include "optrush/machine.h"

namespace optrush {
LibraryState::LibraryState()
    : tf32_matmul_(at::globalContext().allowTF32CuBLAS()),
      tf32_convolution_(at::globalContext().allowTF32CuDNN()),
      flash_(at::globalContext().userEnabledFlashSDP()),
      efficient_(at::globalContext().userEnabledMemEfficientSDP()),
      cudnn_(at::globalContext().userEnabledCuDNNSDP()),
      math_(at::globalContext().userEnabledMathSDP()) {
  for (const at::SDPBackend kernel : at::globalContext().sDPPriorityOrder())
    order_.push_back(static_cast<int64_t>(kernel));
}

LibraryState::~LibraryState() {
  auto& context = at::globalContext();
  context.setAllowTF32CuBLAS(tf32_matmul_);
  context.setAllowTF32CuDNN(tf32_convolution_);
  context.setSDPUseFlash(flash_);
  context.setSDPUseMemEfficient(efficient_);
  context.setSDPUseCuDNN(cudnn_);
  context.setSDPUseMath(math_);
  context.setSDPPriorityOrder(order_);
  use_host_memory(nullptr);
}
}  // namespace optrush
