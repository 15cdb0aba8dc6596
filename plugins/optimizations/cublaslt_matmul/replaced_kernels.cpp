#include "replaced_kernels.h"

#include <ATen/Functions.h>
#include <dlfcn.h>
#include <torch/library.h>

#include "optrush/error.h"
#include "overrides/without_override_warnings.h"

namespace optrush::cublaslt_matmul {
namespace {
using at::Scalar;
using at::ScalarType;

/// A kernel of LibTorch. libtorch_cuda is opened at run time, so its functions are looked up by name.
template <class F>
F* libtorch_kernel(const char* name) {
  auto* found = reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
  if (found == nullptr)
    throw Error(ErrorCode::missing_requirement, "this LibTorch lacks the kernel " + std::string(name),
                "remove the rung, or use a tested version of LibTorch");
  return found;
}

using Mm = Tensor(const Tensor&, const Tensor&);
using MmOut = Tensor&(const Tensor&, const Tensor&, Tensor&);
using MmOfType = Tensor(const Tensor&, const Tensor&, ScalarType);
using MmOfTypeOut = Tensor&(const Tensor&, const Tensor&, ScalarType, Tensor&);
using Addmm = Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&);
using AddmmInPlace = Tensor&(Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&);
using AddmmOut = Tensor&(const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&, Tensor&);
using AddmmOfType = Tensor(const Tensor&, const Tensor&, const Tensor&, ScalarType, const Scalar&,
                           const Scalar&);
using AddmmOfTypeOut = Tensor&(const Tensor&, const Tensor&, const Tensor&, ScalarType, const Scalar&,
                               const Scalar&, Tensor&);

/// LibTorch's functions of the same names in at::cuda.
struct LibTorchKernels {
  Mm* mm = libtorch_kernel<Mm>("_ZN2at4cuda2mmERKNS_6TensorES3_");
  MmOut* mm_out = libtorch_kernel<MmOut>("_ZN2at4cuda7mm_outfERKNS_6TensorES3_RS1_");
  MmOfType* mm_of_type = libtorch_kernel<MmOfType>("_ZN2at4cuda2mmERKNS_6TensorES3_N3c1010ScalarTypeE");
  MmOfTypeOut* mm_of_type_out =
      libtorch_kernel<MmOfTypeOut>("_ZN2at4cuda7mm_outfERKNS_6TensorES3_N3c1010ScalarTypeERS1_");
  Addmm* addmm = libtorch_kernel<Addmm>("_ZN2at4cuda5addmmERKNS_6TensorES3_S3_RKN3c106ScalarES7_");
  AddmmInPlace* addmm_in_place =
      libtorch_kernel<AddmmInPlace>("_ZN2at4cuda6addmm_ERNS_6TensorERKS1_S4_RKN3c106ScalarES8_");
  AddmmOut* addmm_out =
      libtorch_kernel<AddmmOut>("_ZN2at4cuda10addmm_outfERKNS_6TensorES3_S3_RKN3c106ScalarES7_RS1_");
  AddmmOfType* addmm_of_type = libtorch_kernel<AddmmOfType>(
      "_ZN2at4cuda5addmmERKNS_6TensorES3_S3_N3c1010ScalarTypeERKNS4_6ScalarES8_");
  AddmmOfTypeOut* addmm_of_type_out = libtorch_kernel<AddmmOfTypeOut>(
      "_ZN2at4cuda10addmm_outfERKNS_6TensorES3_S3_N3c1010ScalarTypeERKNS4_6ScalarES8_RS1_");
};

Tensor new_result(const Tensor& a, const Tensor& b, ScalarType type) {
  return at::empty({a.size(0), b.size(1)}, a.options().dtype(type).requires_grad(false));
}

/// The kernels that replace LibTorch's.
class Kernels {
 public:
  explicit Kernels(Algorithms& algorithms) : algorithms_(algorithms) {}

  Tensor mm(const Tensor& a, const Tensor& b) const {
    return made(a, b, a.scalar_type(), [&] { return libtorch_.mm(a, b); });
  }
  Tensor mm_of_type(const Tensor& a, const Tensor& b, ScalarType type) const {
    return made(a, b, type, [&] { return libtorch_.mm_of_type(a, b, type); });
  }
  Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) const {
    return computed({}, a, b, 0, 1, out) ? out : libtorch_.mm_out(a, b, out);
  }
  Tensor& mm_of_type_out(const Tensor& a, const Tensor& b, ScalarType type, Tensor& out) const {
    if (out.scalar_type() == type && computed({}, a, b, 0, 1, out)) return out;
    return libtorch_.mm_of_type_out(a, b, type, out);
  }
  Tensor addmm(const Tensor& sum, const Tensor& a, const Tensor& b, const Scalar& beta,
               const Scalar& alpha) const {
    return added(sum, a, b, sum.scalar_type() == a.scalar_type(), beta, alpha,
                 [&] { return libtorch_.addmm(sum, a, b, beta, alpha); });
  }
  Tensor addmm_of_type(const Tensor& sum, const Tensor& a, const Tensor& b, ScalarType type,
                       const Scalar& beta, const Scalar& alpha) const {
    return added(sum, a, b, sum.scalar_type() == type, beta, alpha,
                 [&] { return libtorch_.addmm_of_type(sum, a, b, type, beta, alpha); });
  }
  Tensor& addmm_in_place(Tensor& sum, const Tensor& a, const Tensor& b, const Scalar& beta,
                         const Scalar& alpha) const {
    if (sum.scalar_type() == a.scalar_type() && computed(sum, a, b, beta, alpha, sum)) return sum;
    return libtorch_.addmm_in_place(sum, a, b, beta, alpha);
  }
  Tensor& addmm_out(const Tensor& sum, const Tensor& a, const Tensor& b, const Scalar& beta,
                    const Scalar& alpha, Tensor& out) const {
    if (sum.scalar_type() == a.scalar_type() && computed(sum, a, b, beta, alpha, out)) return out;
    return libtorch_.addmm_out(sum, a, b, beta, alpha, out);
  }
  Tensor& addmm_of_type_out(const Tensor& sum, const Tensor& a, const Tensor& b, ScalarType type,
                            const Scalar& beta, const Scalar& alpha, Tensor& out) const {
    if (out.scalar_type() == type && computed(sum, a, b, beta, alpha, out)) return out;
    return libtorch_.addmm_of_type_out(sum, a, b, type, beta, alpha, out);
  }

 private:
  /// out = beta sum + alpha a b. A `beta` of 0 does not read `sum`, which then may have any numbers.
  bool computed(const Tensor& sum, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                const Tensor& out) const {
    const float factor = sum.defined() ? beta.to<float>() : 0;
    if (sum.defined() && sum.sizes() != out.sizes()) return false;
    const auto product = product_of(a, b, factor == 0 ? Tensor() : sum, out);
    return product && algorithms_.multiply(*product, alpha.to<float>(), factor);
  }
  template <class Otherwise>
  Tensor made(const Tensor& a, const Tensor& b, ScalarType type, const Otherwise& otherwise) const {
    if (!multiplies(a, b, type)) return otherwise();
    const Tensor out = new_result(a, b, type);
    return computed({}, a, b, 0, 1, out) ? out : otherwise();
  }
  /// The result has the type of `sum`.
  template <class Otherwise>
  Tensor added(const Tensor& sum, const Tensor& a, const Tensor& b, bool of_result, const Scalar& beta,
               const Scalar& alpha, const Otherwise& otherwise) const {
    if (!of_result || sum.dim() != 2 || !multiplies(a, b, sum.scalar_type())) return otherwise();
    const Tensor out = new_result(a, b, sum.scalar_type());
    return computed(sum, a, b, beta, alpha, out) ? out : otherwise();
  }

  Algorithms& algorithms_;
  LibTorchKernels libtorch_;
};

/// A member of Kernels as a function that the dispatcher stores.
template <auto Member, class Result, class... Arguments>
auto bound(const Kernels& kernels, Result (Kernels::*)(Arguments...) const) {
  return [&kernels](Arguments... arguments) -> Result { return (kernels.*Member)(arguments...); };
}
}  // namespace

struct ReplacedKernels::Registered {
  explicit Registered(Algorithms& algorithms) : kernels(algorithms) {
    WithoutOverrideWarnings handler(*c10::WarningUtils::get_warning_handler());
    const c10::WarningUtils::WarningHandlerGuard guard(&handler);
    replace<&Kernels::mm>("mm");
    replace<&Kernels::mm_out>("mm.out");
    replace<&Kernels::mm_of_type>("mm.dtype");
    replace<&Kernels::mm_of_type_out>("mm.dtype_out");
    replace<&Kernels::addmm>("addmm");
    replace<&Kernels::addmm_in_place>("addmm_");
    replace<&Kernels::addmm_out>("addmm.out");
    replace<&Kernels::addmm_of_type>("addmm.dtype");
    replace<&Kernels::addmm_of_type_out>("addmm.dtype_out");
  }
  template <auto Member>
  void replace(const char* name) {
    library.impl(name, bound<Member>(kernels, Member));
  }

  Kernels kernels;
  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__};
};

ReplacedKernels::ReplacedKernels(Algorithms& algorithms)
    : registered_(std::make_unique<Registered>(algorithms)) {}
ReplacedKernels::~ReplacedKernels() = default;
}  // namespace optrush::cublaslt_matmul
