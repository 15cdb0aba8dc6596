// Autocast for the simulated device, with LibTorch's lists of operators for a GPU. LibTorch registers none.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "simulated/state.h"

namespace optrush::simulated {
namespace {
#define OPTRUSH_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define OPTRUSH_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define OPTRUSH_FP32_TYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define OPTRUSH_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
void add_policies(torch::Library& m) {
  using namespace at;  // NOLINT(google-build-using-namespace): the signatures in the lists have its types
  AT_FORALL_LOWER_PRECISION_FP(OPTRUSH_LOWER)
  AT_FORALL_FP32(OPTRUSH_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(OPTRUSH_FP32_TYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(OPTRUSH_PROMOTE)
}
#undef OPTRUSH_LOWER
#undef OPTRUSH_FP32
#undef OPTRUSH_FP32_TYPE
#undef OPTRUSH_PROMOTE
}  // namespace

void register_autocast() {
  static const auto policies = [] {
    torch::Library made(torch::Library::IMPL, "aten", c10::DispatchKey::AutocastPrivateUse1, __FILE__,
                        __LINE__);
    add_policies(made);
    return made;
  }();
  static const auto others = [] {
    torch::Library made(torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
    made.fallback(torch::CppFunction::makeFallthrough());
    return made;
  }();
}
}  // namespace optrush::simulated
