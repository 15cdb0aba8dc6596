#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <memory>

#include "simulated/device.h"
#include "simulated/ledger.h"

namespace optrush::simulated {
inline const c10::Device kDevice{c10::kPrivateUse1, 0};

/// The state behind LibTorch's registries: one per process, like the registries.
struct State {
  Form form;
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>(Form{});
  static State& instance();
};

/// Replaces the arguments of an operator by outputs of the right sizes and types, if LibTorch has no shape
/// rule for it in C++. Returns false for other operators.
bool run_shape_rule(const c10::OperatorHandle&, torch::jit::Stack&);

c10::Allocator& allocator();
/// The stream of the calling thread.
c10::StreamId current_stream();
void register_hooks();
void register_kernels();
void register_autocast();
}  // namespace optrush::simulated
