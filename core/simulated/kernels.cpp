// The operators of the simulated device. Operators on storages are LibTorch's. All others go through one
// function that passes their tensors to the kernel of the meta device.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "optrush/error.h"
#include "optrush/tensor.h"
#include "simulated/state.h"

namespace optrush::simulated {
namespace {
using c10::IValue;
using torch::jit::Stack;
constexpr c10::DispatchKeySet kKeys{c10::DispatchKey::PrivateUse1};

Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator(), kKeys, c10::dtype_or_default(type), format);
}
Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> type,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator(), kKeys, c10::dtype_or_default(type));
}

/// The tensors of a call and the meta tensors that stand in for them.
class StandIns {
 public:
  explicit StandIns(const c10::OperatorHandle& op) : op_(op) {}

  IValue stand_in(const IValue& value) {
    if (value.isTensor()) return stand_in_of(value.toTensor());
    if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorVector()) list.push_back(stand_in_of(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (const std::optional<Tensor> tensor : value.toOptionalTensorList())
        list.push_back(tensor ? std::optional(stand_in_of(*tensor)) : std::nullopt);
      return list;
    }
    if (value.isDevice() && value.toDevice().is_privateuseone()) return c10::Device(c10::kMeta);
    return value;
  }

  /// Gives outputs without a size the size that the kernel chose.
  void resize_outputs() const {
    for (const Tensor& stand_in : kept_) {
      const Tensor& tensor = known_.at(stand_in.unsafeGetTensorImpl());
      if (tensor.sizes() != stand_in.sizes()) at::native::resize_(tensor, stand_in.sizes());
    }
  }

  IValue result(const IValue& value) {
    if (value.isTensor()) return result_of(value.toTensor());
    if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorVector()) list.push_back(result_of(tensor));
      return list;
    }
    return value;
  }

 private:
  Tensor stand_in_of(const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (!tensor.is_privateuseone()) {
      TORCH_CHECK(!tensor.is_cpu() || tensor.dim() == 0, "Expected all tensors of ", op_.schema().name(),
                  " to be on one device, but one is on ", kDevice, " and one of ", tensor.dim(),
                  " dimensions on ", tensor.device());
      return tensor;
    }
    Tensor made = at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
    known_.emplace(made.unsafeGetTensorImpl(), tensor);
    kept_.push_back(made);
    return made;
  }

  Tensor result_of(const Tensor& tensor) const {
    if (!tensor.defined()) return tensor;
    if (const auto found = known_.find(tensor.unsafeGetTensorImpl()); found != known_.end())
      return found->second;
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(kDevice));
  }

  const c10::OperatorHandle& op_;
  std::unordered_map<const c10::TensorImpl*, Tensor> known_;
  Tensors kept_;  ///< keeps tensors alive, so that no address is used twice
};

/// Whether a GPU computes this operator with cuBLAS or cuBLASLt.
bool is_product(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string> kProducts = {
      "aten::mm",         "aten::addmm",         "aten::addmm_",           "aten::bmm", "aten::baddbmm",
      "aten::baddbmm_",   "aten::addmv",         "aten::addmv_",           "aten::dot", "aten::vdot",
      "aten::_scaled_mm", "aten::_scaled_mm_v2", "aten::_addmm_activation"};
  return kProducts.contains(op.operator_name().name);
}

/// Temporary memory of an operator, if it is as large as the first input.
int64_t scratch_bytes(const c10::OperatorHandle& op, const Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const auto argument = [&](size_t i) -> const IValue& { return stack[stack.size() - arguments.size() + i]; };
  const std::string& name = op.operator_name().name;
  // The product of gradient and output (aten/src/ATen/native/cuda/SoftMax.cu).
  if (name == "aten::_softmax_backward_data" && form().type == at::kCUDA)
    return static_cast<int64_t>(argument(0).toTensor().nbytes());
  // A copy in the type of the norm (aten/src/ATen/native/LinearAlgebra.cpp).
  if (name == "aten::linalg_vector_norm") {
    const Tensor& tensor = argument(0).toTensor();
    const IValue& type = argument(static_cast<size_t>(op.schema().argumentIndexWithName("dtype").value()));
    if (!type.isNone() && type.toScalarType() != tensor.scalar_type())
      return tensor.numel() * static_cast<int64_t>(c10::elementSize(type.toScalarType()));
  }
  return 0;
}

void run_on_stand_ins(const c10::OperatorHandle& op, Stack* stack) {
  if (run_shape_rule(op, *stack)) return;
  StandIns stand_ins(op);
  const size_t first = stack->size() - op.schema().arguments().size();
  for (size_t i = first; i < stack->size(); ++i) (*stack)[i] = stand_ins.stand_in((*stack)[i]);
  op.callBoxed(stack);
  stand_ins.resize_outputs();
  for (size_t i = first; i < stack->size(); ++i) (*stack)[i] = stand_ins.result((*stack)[i]);
}

void run(const c10::OperatorHandle& op, Stack* stack) {
  // observers see the operator of this device, not its stand-in
  const at::DisableRecordFunctionGuard seen_once;
  Ledger& ledger = *State::instance().ledger;
  const int64_t scratch = scratch_bytes(op, *stack);
  run_on_stand_ins(op, stack);
  if (scratch > 0) ledger.give_back(scratch, ledger.take(scratch, current_stream()));
  if (is_product(op)) ledger.multiply(current_stream());
}

[[noreturn]] void no_values() {
  throw Error(ErrorCode::unsupported, "a forecast has no values that the host could read");
}

/// A copy to pinned host memory without a wait is allowed, because it may come back later (offloading).
Tensor copy_from(const Tensor&, const Tensor& to, bool non_blocking) {
  const auto is_pinned = [&] {
    return at::globalContext().isPinnedPtr(to.storage().data(), c10::kPrivateUse1);
  };
  if (!to.is_privateuseone() && !(non_blocking && is_pinned())) no_values();
  return to;
}
Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, /*non_blocking=*/false);
}

at::Scalar local_scalar_dense(const Tensor&) { no_values(); }

/// Math if no fused kernel is allowed, cuDNN if a GPU tries it first, otherwise FlashAttention.
int64_t attention_kernel(const Tensor& q, const Tensor&, const Tensor&, const std::optional<Tensor>& mask,
                         double, bool, std::optional<double>, bool) {
  constexpr int64_t kMath = 0, kFlash = 1, kEfficient = 2, kCudnn = 3;  // of at::SDPBackend
  auto& context = at::globalContext();
  const bool flash = context.userEnabledFlashSDP(), efficient = context.userEnabledMemEfficientSDP(),
             cudnn = context.userEnabledCuDNNSDP();
  const bool for_cudnn = form().type == at::kCUDA && !mask.has_value() &&
                         (q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf);
  for (const at::SDPBackend backend : context.sDPPriorityOrder()) {
    const auto kernel = static_cast<int64_t>(backend);
    if (kernel == kCudnn && cudnn && for_cudnn) return kCudnn;
    if ((kernel == kFlash && flash) || (kernel == kEfficient && efficient)) break;
  }
  return flash || efficient || cudnn ? kFlash : kMath;
}
}  // namespace

void register_kernels() {
  static const auto own = [] {
    torch::Library made(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
    made.impl("empty.memory_format", empty);
    made.impl("empty_strided", empty_strided);
    made.impl("as_strided", at::native::as_strided_tensorimpl);
    made.impl("view", static_cast<Tensor (*)(const Tensor&, c10::IntArrayRef)>(at::native::view));
    made.impl("_reshape_alias", at::native::_reshape_alias);
    made.impl("resize_", at::native::resize_);
    made.impl("set_.source_Tensor", at::native::set_tensor_);
    made.impl("set_.source_Storage", static_cast<Tensor& (*)(Tensor&, at::Storage)>(at::native::set_));
    made.impl("set_.source_Storage_storage_offset",
              static_cast<Tensor& (*)(Tensor&, at::Storage, int64_t, c10::IntArrayRef, c10::IntArrayRef)>(
                  at::cpu::set_));
    made.impl("_copy_from", copy_from);
    made.impl("_copy_from_and_resize", copy_from_and_resize);
    made.impl("_local_scalar_dense", local_scalar_dense);
    made.impl("_fused_sdp_choice", attention_kernel);
    // A GPU has kernels for these. Without a registration LibTorch would compose them of others.
    for (const char* whole : {"_grouped_mm", "silu_backward", "_foreach_norm.Scalar", "_foreach_add_.Scalar",
                              "_foreach_add_.List", "_foreach_sub_.List", "_foreach_mul_.Tensor",
                              "_foreach_mul_.Scalar", "_foreach_copy_"})
      made.impl(whole, torch::CppFunction::makeFromBoxedFunction<&run>());
    return made;
  }();
  static const auto others = [] {
    torch::Library made(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
    made.fallback(torch::CppFunction::makeFromBoxedFunction<&run>());
    return made;
  }();
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&attention_kernel);
}
}  // namespace optrush::simulated
