#include "kernel_parts/tensors.h"

#include <algorithm>

#include "optrush/error.h"
#include "optrush/forecast.h"

namespace optrush::fused {
namespace {
constexpr int64_t kCacheLine = 64;
/// The next operator reads a smaller result from a cache.
constexpr int64_t kStreamedBytes = int64_t{64} << 20;
constexpr int64_t kElementsPerThread = 32768;
}  // namespace

Type type_of(const at::Tensor& tensor, const std::string& op) {
  if (!tensor.is_cpu() && !tensor.is_cuda() && !is_forecast(tensor))
    throw Error("the fused kernel of " + op + " supports tensors on CPUs and NVIDIA GPUs, not on " +
                tensor.device().str());
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return Type::fp32;
    case at::kDouble:
      return Type::fp64;
    case at::kBFloat16:
      return Type::bf16;
    case at::kHalf:
      return Type::fp16;
    default:
      break;
  }
  throw Error(
      "the fused kernel of " + op + " does not support the type " + c10::toString(tensor.scalar_type()),
      "use fp32, fp64, bf16 or fp16");
}

at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

bool worth_streaming(std::initializer_list<at::Tensor> results, int64_t row_bytes) {
  int64_t bytes = 0;
  for (const at::Tensor& result : results) {
    if (!result.defined()) continue;
    if (reinterpret_cast<uintptr_t>(result.data_ptr()) % kCacheLine != 0) return false;
    bytes += static_cast<int64_t>(result.nbytes());
  }
  return bytes >= kStreamedBytes && row_bytes % kCacheLine == 0;
}

int64_t grain(int64_t width) {
  return std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(1, width));
}
}  // namespace optrush::fused
