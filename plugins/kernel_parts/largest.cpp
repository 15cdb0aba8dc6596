#include "kernel_parts/largest.h"

#include <ATen/Functions.h>
#include <c10/core/TensorImpl.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "optrush/error.h"

namespace optrush::fused {
/// Has external linkage: each plugin has a copy of this code, and tensors pass from one plugin to
/// another.
struct NotedLargest final : c10::BackendMeta {
  NotedLargest(at::Tensor parts, int64_t version) : parts(std::move(parts)), version(version) {}
  at::Tensor parts;
  int64_t version;  ///< of the tensor
};

namespace {
bool checks_noted() {
  const char* value = std::getenv("OPTRUSH_CHECK_LARGEST");
  return value != nullptr && std::string_view(value) == "1";
}
}  // namespace

at::Tensor new_largest_parts(const at::Tensor& like, int64_t tensors) {
  return at::zeros({tensors * kLargestParts}, like.options().dtype(at::kFloat).requires_grad(false));
}

void note_largest(const at::Tensor& tensor, at::Tensor parts) {
  tensor.unsafeGetTensorImpl()->set_backend_meta(
      c10::make_intrusive<NotedLargest>(std::move(parts), tensor._version()));
}

at::Tensor noted_largest(const at::Tensor& tensor) {
  const auto* noted = dynamic_cast<const NotedLargest*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
  if (noted == nullptr || noted->version != tensor._version()) return {};
  if (checks_noted() && tensor.numel() > 0) {
    const double found = tensor.detach().abs().max().item<double>();
    const double told = noted->parts.max().item<double>();
    if (found > told)
      throw Error(ErrorCode::internal,
                  "the noted largest value of a tensor is " + std::to_string(told) + ", but " +
                      std::to_string(found) + " was found",
                  "a kernel wrote to the tensor without a change of its version");
  }
  return noted->parts;
}
}  // namespace optrush::fused
