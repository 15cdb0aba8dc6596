#include "kernel_parts/tensors.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

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

at::Tensor dense_rows(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

at::Tensor empty_heads(const at::Tensor& like) {
  auto sizes = like.sizes().vec();
  std::swap(sizes[1], sizes[2]);
  return at::empty(sizes, like.options()).transpose(1, 2);
}

at::Tensor sum_over_rows(int64_t rows, int64_t width,
                         const std::function<void(int64_t, int64_t, double*)>& add) {
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), rows));
  const at::Tensor all = at::zeros({parts, width}, at::kDouble);
  auto* const sums = all.mutable_data_ptr<double>();
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      add(rows * part / parts, rows * (part + 1) / parts, sums + part * width);
  });
  return all.sum(0);
}
}  // namespace optrush::fused
