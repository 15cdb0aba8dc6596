#include "products.h"

#include <ATen/CPUFunctions.h>
#include <ATen/Functions.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>

#include "optrush/error.h"
#include "overrides/without_override_warnings.h"

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

bool dense(const Tensor& x) {
  const auto rows = x.stride(0), columns = x.stride(1);
  return (columns == 1 && rows >= x.size(1)) || (rows == 1 && columns >= x.size(0));
}

bool takes(const Tensor& x) {
  return x.scalar_type() == at::kFloat && x.dim() == 2 && x.is_cpu() && x.layout() == at::kStrided &&
         dense(x) && !x.is_conj() && !x.is_neg();
}

bool holds(const Tensor& out, const Tensor& a, const Tensor& b) {
  return takes(out) && out.is_contiguous() && out.size(0) == a.size(0) && out.size(1) == b.size(1) &&
         !out.is_alias_of(a) && !out.is_alias_of(b);
}

Tensor mm(const Tensor& a, const Tensor& b) {
  if (!multiplies(a, b)) return at::cpu::mm(a, b);
  Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  product()(a, b, out, 0, 1);
  return out;
}

Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) {
  if (!multiplies(a, b) || !holds(out, a, b)) return at::cpu::mm_out(out, a, b);
  product()(a, b, out, 0, 1);
  return out;
}

/// Whether `sum` has the shape of the result. LibTorch adds a bias.
bool adds(const Tensor& sum, const Tensor& a, const Tensor& b) {
  return multiplies(a, b) && takes(sum) && sum.size(0) == a.size(0) && sum.size(1) == b.size(1);
}

Tensor addmm(const Tensor& sum, const Tensor& a, const Tensor& b, const at::Scalar& beta,
             const at::Scalar& alpha) {
  if (!adds(sum, a, b)) return at::cpu::addmm(sum, a, b, beta, alpha);
  Tensor out = sum.contiguous();
  if (out.is_alias_of(sum)) out = out.clone();
  product()(a, b, out, beta.to<float>(), alpha.to<float>());
  return out;
}

Tensor& addmm_(Tensor& sum, const Tensor& a, const Tensor& b, const at::Scalar& beta,
               const at::Scalar& alpha) {
  if (!adds(sum, a, b) || !holds(sum, a, b)) return at::cpu::addmm_(sum, a, b, beta, alpha);
  product()(a, b, sum, beta.to<float>(), alpha.to<float>());
  return sum;
}

Tensor& addmm_out(const Tensor& sum, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                  const at::Scalar& alpha, Tensor& out) {
  if (!adds(sum, a, b) || !holds(out, a, b)) return at::cpu::addmm_out(out, sum, a, b, beta, alpha);
  if (!out.is_same(sum)) out.copy_(sum);
  product()(a, b, out, beta.to<float>(), alpha.to<float>());
  return out;
}

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

bool multiplies(const Tensor& a, const Tensor& b) {
  if (!takes(a) || !takes(b)) return false;
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  return b.size(0) == k && std::min({m, n, k}) >= kLeastSize && n <= kMostColumns &&
         2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= kLeastFlops;
}

struct Products::Registered {
  Registered() {
    WithoutOverrideWarnings handler(*c10::WarningUtils::get_warning_handler());
    const c10::WarningUtils::WarningHandlerGuard guard(&handler);
    library.impl("mm", TORCH_FN(mm));
    library.impl("mm.out", TORCH_FN(mm_out));
    library.impl("addmm", TORCH_FN(addmm));
    library.impl("addmm_", TORCH_FN(addmm_));
    library.impl("addmm.out", TORCH_FN(addmm_out));
  }
  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__};

  /// One for all runs of this process that use it.
  static std::shared_ptr<Registered> shared() {
    static std::mutex mutex;
    static std::weak_ptr<Registered> present;
    const std::lock_guard lock(mutex);
    std::shared_ptr<Registered> registered = present.lock();
    if (!registered) present = registered = std::make_shared<Registered>();
    return registered;
  }
};

Products::Products() {
  if (!available()) throw Error("LibTorch does not call oneDNN's matmul on this processor");
  registered_ = Registered::shared();
}
Products::~Products() = default;
}  // namespace optrush::onednn_matmul
