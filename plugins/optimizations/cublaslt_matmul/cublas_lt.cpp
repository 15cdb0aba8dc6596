#include "cublas_lt.h"

#include <dlfcn.h>

#include <optional>

namespace optrush::cublaslt_matmul {
namespace {
template <class F>
bool find_function(F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

std::optional<CublasLt> find_library() {
  CublasLt lt{};
  const bool complete =
      find_function(lt.version, "cublasLtGetVersion") && find_function(lt.create, "cublasLtCreate") &&
      find_function(lt.destroy, "cublasLtDestroy") &&
      find_function(lt.create_product, "cublasLtMatmulDescCreate") &&
      find_function(lt.destroy_product, "cublasLtMatmulDescDestroy") &&
      find_function(lt.set_product, "cublasLtMatmulDescSetAttribute") &&
      find_function(lt.create_layout, "cublasLtMatrixLayoutCreate") &&
      find_function(lt.destroy_layout, "cublasLtMatrixLayoutDestroy") &&
      find_function(lt.create_preference, "cublasLtMatmulPreferenceCreate") &&
      find_function(lt.destroy_preference, "cublasLtMatmulPreferenceDestroy") &&
      find_function(lt.set_preference, "cublasLtMatmulPreferenceSetAttribute") &&
      find_function(lt.candidates, "cublasLtMatmulAlgoGetHeuristic") &&
      find_function(lt.check, "cublasLtMatmulAlgoCheck") && find_function(lt.multiply, "cublasLtMatmul");
  return complete ? std::optional(lt) : std::nullopt;
}
}  // namespace

const CublasLt* CublasLt::find() {
  static const std::optional<CublasLt> found = find_library();
  return found ? &*found : nullptr;
}
}  // namespace optrush::cublaslt_matmul
