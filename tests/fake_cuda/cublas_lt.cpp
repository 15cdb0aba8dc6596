// cuBLASLt: the functions that torch's products with epilogues and in 8 bits and the plugin cublaslt_matmul
// call. An algorithm names the product that it was found for, and no product takes another one's.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <functional>
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
  int64_t leading = 0;
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
bool is_narrow(const Layout& l) { return l.leading < static_cast<int64_t>(l.rows); }

/// `lc` and `ld` are of C and D.
Product product_of(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
                   cublasLtMatrixLayout_t lc, cublasLtMatrixLayout_t ld) {
  const Layout &a = *object_of(la), &b = *object_of(lb), &summand = *object_of(lc), &c = *object_of(ld);
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
  else if (summand.rows != m || summand.columns != n)
    p.refusal = "C has not the shape of D";
  else if (is_narrow(a) || is_narrow(b) || is_narrow(summand) || is_narrow(c))
    p.refusal = "a leading dimension is too small";
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

/// The real heuristic finds about as many for a usual shape.
constexpr int kAlgorithms = 12;
constexpr uint64_t kMark = 0xFA4E;
cublasLtMatmulAlgo_t algorithm_of(const Product& p, int number) {
  cublasLtMatmulAlgo_t made{};
  made.data[0] = kMark;
  made.data[1] = std::hash<std::string>()(p.text);
  made.data[2] = static_cast<uint64_t>(number);
  return made;
}
bool is_of(const Product& p, const cublasLtMatmulAlgo_t& algorithm) {
  return algorithm.data[0] == kMark && algorithm.data[1] == std::hash<std::string>()(p.text) &&
         algorithm.data[2] < kAlgorithms;
}
/// Every other algorithm sums parts of a product in a workspace.
size_t workspace_of(const Product&, int number) { return number % 2 == 0 ? 0 : 1 << 20; }

cublasLtMatmulHeuristicResult_t result_of(const Product& p, int number) {
  cublasLtMatmulHeuristicResult_t result{};
  result.algo = algorithm_of(p, number);
  result.workspaceSize = workspace_of(p, number);
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1;
  return result;
}
}  // namespace

FAKE_CUDA_API cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new Description);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<Description*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
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
                                                        uint64_t rows, uint64_t columns, int64_t leading) {
  auto* layout = new Layout;
  layout->type = type;
  layout->rows = rows;
  layout->columns = columns;
  layout->leading = leading;
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
FAKE_CUDA_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
    size_t bytes) {
  reinterpret_cast<Description*>(p)->set(attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
FAKE_CUDA_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t result, cublasLtMatmulPreference_t preference,
    int wanted, cublasLtMatmulHeuristicResult_t* out, int* found) {
  *found = 0;
  const Product p = product_of(d, a, b, c, result);
  if (!p.refusal.empty()) return refuse(p);
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  uint64_t most = 0;
  const auto& set = reinterpret_cast<Description*>(preference)->attributes;
  if (const auto it = set.find(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES); it != set.end())
    std::memcpy(&most, it->second.data(), std::min(sizeof most, it->second.size()));
  for (int number = 0; number < kAlgorithms && *found < wanted; ++number)
    if (workspace_of(p, number) <= most) out[(*found)++] = result_of(p, number);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t result,
                                                     const cublasLtMatmulAlgo_t* algorithm,
                                                     cublasLtMatmulHeuristicResult_t* out) {
  const Product p = product_of(d, a, b, c, result);
  if (!p.refusal.empty()) return refuse(p);
  if (!is_of(p, *algorithm)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *out = result_of(p, static_cast<int>(algorithm->data[2]));
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void*,
                                            const void* a, cublasLtMatrixLayout_t la, const void* b,
                                            cublasLtMatrixLayout_t lb, const void*, const void* c,
                                            cublasLtMatrixLayout_t lc, void* out, cublasLtMatrixLayout_t ld,
                                            const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                            size_t workspace_bytes, cudaStream_t stream) {
  Product p = product_of(d, la, lb, lc, ld);
  if (!p.refusal.empty()) return refuse(p);
  if (algorithm != nullptr && !is_of(p, *algorithm)) {
    p.refusal = "the algorithm was not found for this product";
    return refuse(p);
  }
  if (algorithm != nullptr && workspace_of(p, static_cast<int>(algorithm->data[2])) > workspace_bytes) {
    p.refusal = "the workspace is smaller than the algorithm needs";
    return refuse(p);
  }
  if (algorithm != nullptr && algorithm->data[2] > 0)
    p.text += " algorithm " + std::to_string(algorithm->data[2]);
  std::vector<const void*> memory = {a, b, out};
  if (c != nullptr) memory.push_back(c);
  if (workspace_bytes > 0) memory.push_back(workspace);
  return library_call(p.text, stream, memory) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                             : CUBLAS_STATUS_EXECUTION_FAILED;
}
