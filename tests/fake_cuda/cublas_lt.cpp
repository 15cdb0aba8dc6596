// cuBLASLt: the functions that torch's products with epilogues and in 8 bits call.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "api.h"
#include "data_type.h"
#include "settings.h"
#include "work.h"

using namespace fake_cuda;

namespace {
/// The content of the caller's opaque descriptors.
struct Description {
  std::map<int, std::vector<char>> attributes;

  int integer(int attribute, int standard) const {
    const auto it = attributes.find(attribute);
    if (it == attributes.end()) return standard;
    int value = 0;  // attributes of one byte are not negative
    std::memcpy(&value, it->second.data(), std::min(sizeof value, it->second.size()));
    return value;
  }
  void set(int attribute, const void* value, size_t bytes) {
    const auto* begin = static_cast<const char*>(value);
    attributes[attribute].assign(begin, begin + bytes);
  }
};
struct Layout : Description {
  int type = 0;
  uint64_t rows = 0, columns = 0;
};

Description* object_of(cublasLtMatmulDesc_t d) { return reinterpret_cast<Description*>(d); }
Layout* object_of(cublasLtMatrixLayout_t l) { return reinterpret_cast<Layout*>(l); }

/// " fast sums", " scales 4 5": settings of an 8-bit product that differ from the standard.
std::string settings_of(const Description& d) {
  std::string text;
  if (d.integer(CUBLASLT_MATMUL_DESC_FAST_ACCUM, 0) != 0) text += " fast sums";
  const int a = d.integer(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, 0),
            b = d.integer(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, 0);
  if (a != 0 || b != 0) text += " scales " + std::to_string(a) + " " + std::to_string(b);
  return text;
}

struct Product {
  std::string text, refusal;
};
Product product_of(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
                   cublasLtMatrixLayout_t lc) {
  const Layout &a = *object_of(la), &b = *object_of(lb), &c = *object_of(lc);
  const bool ta = object_of(d)->integer(CUBLASLT_MATMUL_DESC_TRANSA, 0) != 0,
             tb = object_of(d)->integer(CUBLASLT_MATMUL_DESC_TRANSB, 0) != 0;
  const uint64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns;
  const uint64_t k_of_b = tb ? b.columns : b.rows, n = tb ? b.rows : b.columns;
  Product p;
  p.text = std::string("cublasLtMatmul ") + (ta ? "t" : "n") + (tb ? "t" : "n") + " m" + std::to_string(m) +
           " n" + std::to_string(n) + " k" + std::to_string(k) + " " + name_of_type(a.type) + " " +
           name_of_type(b.type) + " -> " + name_of_type(c.type) + " epilogue " +
           std::to_string(object_of(d)->integer(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT)) +
           settings_of(*object_of(d));
  const auto& architecture = Settings::get().architecture;
  if (k != k_of_b || c.rows != m || c.columns != n)
    p.refusal = "the shapes do not fit";
  else if (!is_float8(a.type))
    p.refusal = "";
  else if (architecture.major < 9 && !(architecture.major == 8 && architecture.minor == 9))
    p.refusal = "float8 needs sm_89 or newer";
  else if (architecture.major == 9 && (!ta || tb))
    p.refusal = "float8 needs A transposed and B as it is on sm_90";
  else if (m % 16 != 0 || k % 16 != 0)
    p.refusal = "sizes of float8 matrices must be multiples of 16";
  else if (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2)
    p.refusal = "e5m2 by e5m2 is not supported";
  return p;
}
cublasStatus_t refuse(const Product& p) {
  fault(cudaErrorInvalidValue, p.text, p.refusal);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}
}  // namespace

FAKE_CUDA_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t,
                                                      cudaDataType_t) {
  *d = reinterpret_cast<cublasLtMatmulDesc_t>(new Description);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete object_of(d);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                                            cublasLtMatmulDescAttributes_t attribute,
                                                            const void* value, size_t bytes) {
  object_of(d)->set(attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType type,
                                                        uint64_t rows, uint64_t columns, int64_t) {
  auto* layout = new Layout;
  layout->type = type;
  layout->rows = rows;
  layout->columns = columns;
  *l = reinterpret_cast<cublasLtMatrixLayout_t>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete object_of(l);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                              cublasLtMatrixLayoutAttribute_t attribute,
                                                              const void* value, size_t bytes) {
  object_of(l)->set(attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  *p = reinterpret_cast<cublasLtMatmulPreference_t>(new Description);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete reinterpret_cast<Description*>(p);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                                  cublasLtMatmulPreferenceAttributes_t,
                                                                  const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
FAKE_CUDA_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t c, cublasLtMatmulPreference_t, int wanted,
    cublasLtMatmulHeuristicResult_t* out, int* found) {
  *found = 0;
  if (const Product p = product_of(d, a, b, c); !p.refusal.empty()) return refuse(p);
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(out, 0, sizeof *out);
  out->state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void*,
                                            const void* a, cublasLtMatrixLayout_t la, const void* b,
                                            cublasLtMatrixLayout_t lb, const void*, const void*,
                                            cublasLtMatrixLayout_t, void* out, cublasLtMatrixLayout_t lc,
                                            const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
  const Product p = product_of(d, la, lb, lc);
  if (!p.refusal.empty()) return refuse(p);
  return library_call(p.text, stream, {a, b, out}) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                  : CUBLAS_STATUS_EXECUTION_FAILED;
}
