// The operators of the simulated device. Operators on storages are LibTorch's. All others go through one
// function that passes their tensors to the CPU's kernel, or to the meta device's for shapes only.
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

/// The same memory as a CPU tensor; without values, a tensor that a kernel may resize.
Tensor on_host(const Tensor& tensor) {
  if (tensor.numel() == 0) return at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()));
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(at::kCPU).dtype(tensor.scalar_type()));
}

/// Turns a new CPU tensor into a tensor of the device.
Tensor to_device(const Tensor& host) {
  auto data = std::make_unique<Tensor>(host);
  void* const address = host.storage().mutable_data();
  c10::DataPtr pointer(
      address, data.release(),
      [](void* kept) { const std::unique_ptr<Tensor> ended(static_cast<Tensor*>(kept)); }, kDevice);
  c10::Storage storage(c10::Storage::use_byte_size_t(), host.storage().nbytes(), std::move(pointer),
                       &allocator(), /*resizable=*/true);
  Tensor made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), kKeys, host.dtype());
  made.unsafeGetTensorImpl()->set_storage_offset(host.storage_offset());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides());
  return made;
}

/// The tensors of a call and the CPU tensors that stand in for them.
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
    if (value.isDevice() && value.toDevice().is_privateuseone())
      return c10::Device(values() == Values::host ? c10::kCPU : c10::kMeta);
    return value;
  }

  /// Gives outputs without a size the size that the kernel chose.
  void resize_outputs() const {
    for (const Tensor& stand_in : kept_) {
      const Tensor& tensor = known_.at(stand_in.unsafeGetTensorImpl());
      if (tensor.sizes() == stand_in.sizes()) continue;
      at::native::resize_(tensor, stand_in.sizes());
      if (values() == Values::host) on_host(tensor).copy_(stand_in);
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
    Tensor made = values() == Values::host ? on_host(tensor)
                                           : at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(),
                                                                            tensor.scalar_type());
    known_.emplace(made.unsafeGetTensorImpl(), tensor);
    kept_.push_back(made);
    return made;
  }

  Tensor result_of(const Tensor& tensor) const {
    if (!tensor.defined()) return tensor;
    if (const auto found = known_.find(tensor.unsafeGetTensorImpl()); found != known_.end())
      return found->second;
    if (tensor.is_meta())
      return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(kDevice));
    return tensor.is_cpu() ? to_device(tensor) : tensor;
  }

  const c10::OperatorHandle& op_;
  std::unordered_map<const c10::TensorImpl*, Tensor> known_;
  Tensors kept_;  ///< keeps tensors alive, so that no address is used twice
};

/// Whether a GPU computes this operator with cuBLAS or cuBLASLt.
bool is_product(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string> kProducts = {
      "aten::mm",      "aten::addmm",    "aten::addmm_",     "aten::bmm",
      "aten::baddbmm", "aten::baddbmm_", "aten::addmv",      "aten::addmv_",
      "aten::dot",     "aten::vdot",     "aten::_scaled_mm", "aten::_addmm_activation"};
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
  if (values() == Values::none && run_shape_rule(op, *stack)) return;
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
  State& state = State::instance();
  ++state.operators;
  const int64_t scratch = scratch_bytes(op, *stack);
  run_on_stand_ins(op, stack);
  if (scratch > 0) state.ledger->give_back(scratch, state.ledger->take(scratch, current_stream()));
  if (is_product(op)) state.ledger->multiply(current_stream());
}

[[noreturn]] void no_values() {
  throw Error(ErrorCode::unsupported, "a forecast has no values that the host could read");
}

/// Whether the host waits for a copy, as in CUDA: the copy blocks, or host memory is not pinned.
bool host_waits(const Tensor& host, bool non_blocking) {
  return !non_blocking || !at::globalContext().isPinnedPtr(host.storage().data(), c10::kPrivateUse1);
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  const at::DisableRecordFunctionGuard seen_once;
  State& state = State::instance();
  bool waits = false;
  if (from.device() == to.device()) {
    ++state.operators;
  } else {
    ++state.copies;
    waits = host_waits(from.is_cpu() ? from : to, non_blocking);
    if (waits) ++state.waits;
  }
  if (values() == Values::none) {
    // A copy to the host without a wait is allowed, because it may come back later (offloading).
    if (!to.is_privateuseone() && waits) no_values();
    return to;
  }
  const Tensor source = from.is_cpu() ? from : on_host(from);
  Tensor target = to.is_cpu() ? to : on_host(to);
  target.copy_(source);
  return to;
}
Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, /*non_blocking=*/false);
}

at::Scalar local_scalar_dense(const Tensor& tensor) {
  const at::DisableRecordFunctionGuard seen_once;
  ++State::instance().waits;
  if (values() == Values::none) no_values();
  return at::_local_scalar_dense(on_host(tensor));
}

Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size,
                    c10::IntArrayRef stride) {
  return at::cpu::set_(self, std::move(source), offset, size, stride);
}
Tensor as_strided(const Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                  std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}
const Tensor& resize(const Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  return at::native::resize_(self, size, format);
}

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
    made.impl("as_strided", as_strided);
    made.impl("view", static_cast<Tensor (*)(const Tensor&, c10::IntArrayRef)>(at::native::view));
    made.impl("_reshape_alias", at::native::_reshape_alias);
    made.impl("resize_", resize);
    made.impl("set_.source_Tensor", at::native::set_tensor_);
    made.impl("set_.source_Storage", static_cast<Tensor& (*)(Tensor&, at::Storage)>(at::native::set_));
    made.impl("set_.source_Storage_storage_offset", set_storage);
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
