#include "products.h"

#include <ATen/Functions.h>
#include <dlfcn.h>

#include <algorithm>

#include "optrush/error.h"

namespace optrush::onednn_matmul {
namespace {
/// out = beta out + alpha a b, for any memory order of a and b. LibTorch calls it for types of 16 bits. It is
/// not part of the documented interface, so it is looked up by name. If it is missing, the plugin does not
/// replace products.
using Product = void (*)(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha);

Product find_product() {
  return reinterpret_cast<Product>(dlsym(RTLD_DEFAULT, "_ZN2at6native13mkldnn_matmulERKNS_6TensorES3_S3_ff"));
}
Product product() {
  static const Product found = find_product();
  return found;
}

/// For fewer FLOPs, finding the kernel for a shape takes a large part of the product's time.
constexpr double kLeastFlops = 4e6;
constexpr int64_t kLeastSize = 16;
/// For wider results oneDNN's kernels are slower than MKL's.
constexpr int64_t kMostColumns = 16384;

}  // namespace

bool expected_faster() {
#if defined(__x86_64__)
  return !__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw");
#else
  return false;
#endif
}

bool available() {
  // LibTorch refuses the call on processors for which its oneDNN has no kernels of 16 bits.
  static const bool found = [] {
    if (product() == nullptr) return false;
    const Tensor one = at::ones({1, 1});
    try {
      product()(one, one, at::empty({1, 1}), 0, 1);
    } catch (const c10::Error&) {
      return false;
    }
    return true;
  }();
  return found;
}

bool Kernels::takes(const Tensor& x) {
  return x.scalar_type() == at::kFloat && x.dim() == 2 && x.is_cpu() && x.layout() == at::kStrided &&
         dense_in_one_order(x) && !x.is_conj() && !x.is_neg();
}

bool Kernels::multiplies(const Tensor& a, const Tensor& b) {
  if (!takes(a) || !takes(b)) return false;
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  return b.size(0) == k && std::min({m, n, k}) >= kLeastSize && n <= kMostColumns &&
         2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= kLeastFlops;
}

void Kernels::multiply(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha) {
  product()(a, b, out, beta, alpha);
}

Products::Products() {
  if (!available()) throw Error("LibTorch does not call oneDNN's matmul on this processor");
}
}  // namespace optrush::onednn_matmul
