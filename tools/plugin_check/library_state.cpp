#include "plugin_check/library_state.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <atomic>
#include <memory>
#include <string>

#include "optrush/advanced/machine.h"

namespace optrush {
namespace {
/// Set by the callback. Callbacks of RecordFunction are plain functions without a context.
std::atomic<bool>& seen() {
  static std::atomic<bool> drew{false};
  return drew;
}

/// Fused attention may use a generator for dropout, which is never requested here.
bool is_attention(const std::string& name) { return name.find("attention") != std::string::npos; }

std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& fn) {
  const auto name = fn.operator_name();
  if (!name) return nullptr;
  const auto handle = c10::Dispatcher::singleton().findSchema(*name);
  if (handle && handle->hasTag(at::Tag::nondeterministic_seeded) && !is_attention(name->name)) seen() = true;
  return nullptr;
}
}  // namespace

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

DrawObserver::DrawObserver() {
  seen() = false;
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(see).scopes({at::RecordScope::FUNCTION}));
}
DrawObserver::~DrawObserver() { at::removeCallback(handle_); }
bool DrawObserver::drew() const { return seen(); }
}  // namespace optrush
