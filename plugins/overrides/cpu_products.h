#pragma once
#include <ATen/CPUFunctions.h>
#include <ATen/Functions.h>
#include <torch/library.h>

#include <memory>
#include <mutex>

#include "optrush/tensor.h"
#include "overrides/without_override_warnings.h"

namespace optrush {
/// Whether the elements of a matrix are without gaps in rows or in columns.
inline bool dense_in_one_order(const Tensor& x) {
  const auto rows = x.stride(0), columns = x.stride(1);
  return (columns == 1 && rows >= x.size(1)) || (rows == 1 && columns >= x.size(0));
}

/// Replaces LibTorch's mm and addmm on the CPU of this process, while one of these lives, for the products
/// that P multiplies. P has three static functions:
///   bool takes(const Tensor& x): a strided matrix on a CPU that P reads and writes;
///   bool multiplies(const Tensor& a, const Tensor& b): a (M, K) and b (K, N), which P takes;
///   void multiply(a, b, const Tensor& out, float beta, float alpha): out = beta out + alpha a b, for a
///   contiguous out (M, N). With beta = 0 it does not read out.
template <class P>
class CpuProducts {
 public:
  CpuProducts() : registered_(shared()) {}

 private:
  struct Registered {
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
  };

  /// One for all runs of this process that use it.
  static std::shared_ptr<Registered> shared() {
    static std::mutex mutex;
    static std::weak_ptr<Registered> present;
    const std::lock_guard lock(mutex);
    std::shared_ptr<Registered> registered = present.lock();
    if (!registered) present = registered = std::make_shared<Registered>();
    return registered;
  }

  static bool holds(const Tensor& out, const Tensor& a, const Tensor& b) {
    return P::takes(out) && out.is_contiguous() && out.size(0) == a.size(0) && out.size(1) == b.size(1) &&
           !out.is_alias_of(a) && !out.is_alias_of(b);
  }

  static Tensor mm(const Tensor& a, const Tensor& b) {
    if (!P::multiplies(a, b)) return at::cpu::mm(a, b);
    Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
    P::multiply(a, b, out, 0, 1);
    return out;
  }

  static Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) {
    if (!P::multiplies(a, b) || !holds(out, a, b)) return at::cpu::mm_out(out, a, b);
    P::multiply(a, b, out, 0, 1);
    return out;
  }

  /// Whether `sum` has the shape of the result. LibTorch adds a bias.
  static bool adds(const Tensor& sum, const Tensor& a, const Tensor& b) {
    return P::multiplies(a, b) && P::takes(sum) && sum.size(0) == a.size(0) && sum.size(1) == b.size(1);
  }

  static Tensor addmm(const Tensor& sum, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                      const at::Scalar& alpha) {
    if (!adds(sum, a, b)) return at::cpu::addmm(sum, a, b, beta, alpha);
    Tensor out = sum.contiguous();
    if (out.is_alias_of(sum)) out = out.clone();
    P::multiply(a, b, out, beta.to<float>(), alpha.to<float>());
    return out;
  }

  static Tensor& addmm_(Tensor& sum, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                        const at::Scalar& alpha) {
    if (!adds(sum, a, b) || !holds(sum, a, b)) return at::cpu::addmm_(sum, a, b, beta, alpha);
    P::multiply(a, b, sum, beta.to<float>(), alpha.to<float>());
    return sum;
  }

  static Tensor& addmm_out(const Tensor& sum, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                           const at::Scalar& alpha, Tensor& out) {
    if (!adds(sum, a, b) || !holds(out, a, b)) return at::cpu::addmm_out(out, sum, a, b, beta, alpha);
    if (!out.is_same(sum)) out.copy_(sum);
    P::multiply(a, b, out, beta.to<float>(), alpha.to<float>());
    return out;
  }

  std::shared_ptr<Registered> registered_;
};
}  // namespace optrush
