// cuBLAS: shapes, leading dimensions and memory are checked, products are recorded.
#include <cublas_v2.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "api.h"
#include "data_type.h"
#include "work.h"

using namespace fake_cuda;

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};

namespace {
struct Matrix {
  const void* data;
  int type;
  int64_t leading;
};

cublasStatus_t status_of(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t product(const char* name, cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                       int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, Matrix c, int64_t batch,
                       bool allows_tf32 = false) {
  if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool plain_a = ta == CUBLAS_OP_N, plain_b = tb == CUBLAS_OP_N;
  const auto least = [](int64_t rows) { return std::max<int64_t>(1, rows); };
  if (m < 0 || n < 0 || k < 0 || a.leading < least(plain_a ? m : k) || b.leading < least(plain_b ? k : n) ||
      c.leading < least(m)) {
    fault(cudaErrorInvalidValue, name, "a size below 0, or a leading dimension that is too small");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const bool tf32 = allows_tf32 && a.type == CUDA_R_32F && h->math == CUBLAS_TF32_TENSOR_OP_MATH;
  const std::string text = std::string(name) + " " + (plain_a ? "n" : "t") + (plain_b ? "n" : "t") + " m" +
                           std::to_string(m) + " n" + std::to_string(n) + " k" + std::to_string(k) +
                           (batch > 1 ? " batch " + std::to_string(batch) : "") + " " + name_of_type(a.type) +
                           " " + name_of_type(b.type) + " -> " + name_of_type(c.type) + (tf32 ? " tf32" : "");
  if (k == 0) return status_of(library_call(text, h->stream, {c.data}));
  return status_of(library_call(text, h->stream, {a.data, b.data, c.data}));
}

template <class T>
cublasStatus_t vectors(const char* name, cublasHandle_t h, int64_t m, int64_t n, const T* a, const T* x,
                       const void* result) {
  std::vector<const void*> used = {a, x};
  if (h->pointers == CUBLAS_POINTER_MODE_DEVICE || std::string(name).ends_with("gemv"))
    used.push_back(result);
  return status_of(
      library_call(std::string(name) + " m" + std::to_string(m) + " n" + std::to_string(n), h->stream, used));
}

cublasStatus_t triangular_solve(const char* name, cublasHandle_t h, cublasSideMode_t side, int m, int n,
                                const void* a, int lda, const void* b, int ldb, int batch) {
  if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || lda < std::max(1, side == CUBLAS_SIDE_LEFT ? m : n) || ldb < std::max(1, m)) {
    fault(cudaErrorInvalidValue, name, "a size below 0, or a leading dimension that is too small");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
  return status_of(library_call(std::string(name) + " m" + std::to_string(m) + " n" + std::to_string(n) +
                                    (batch > 1 ? " batch " + std::to_string(batch) : ""),
                                h->stream, {a, b}));
}
}  // namespace

FAKE_CUDA_API cublasStatus_t cublasCreate_v2(cublasHandle_t* h) {
  *h = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasDestroy_v2(cublasHandle_t h) {
  delete h;
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t stream) {
  h->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasGetStream_v2(cublasHandle_t h, cudaStream_t* stream) {
  *stream = h->stream;
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t math) {
  h->math = math;
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasGetMathMode(cublasHandle_t h, cublasMath_t* math) {
  *math = h->math;
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t h, cublasPointerMode_t mode) {
  h->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t h, cublasPointerMode_t* mode) {
  *mode = h->pointers;
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}
FAKE_CUDA_API const char* cublasGetStatusString(cublasStatus_t) { return "fake_cuda: cuBLAS failed"; }
FAKE_CUDA_API const char* cublasGetStatusName(cublasStatus_t) { return "fake_cuda: cuBLAS failed"; }

FAKE_CUDA_API cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                            int m, int n, int k, const float*, const float* a, int lda,
                                            const float* b, int ldb, const float*, float* c, int ldc) {
  return product("cublasSgemm", h, ta, tb, m, n, k, {a, CUDA_R_32F, lda}, {b, CUDA_R_32F, ldb},
                 {c, CUDA_R_32F, ldc}, 1, true);
}
FAKE_CUDA_API cublasStatus_t cublasDgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                            int m, int n, int k, const double*, const double* a, int lda,
                                            const double* b, int ldb, const double*, double* c, int ldc) {
  return product("cublasDgemm", h, ta, tb, m, n, k, {a, CUDA_R_64F, lda}, {b, CUDA_R_64F, ldb},
                 {c, CUDA_R_64F, ldc}, 1);
}
FAKE_CUDA_API cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta,
                                                       cublasOperation_t tb, int m, int n, int k,
                                                       const float*, const float* a, int lda, long long,
                                                       const float* b, int ldb, long long, const float*,
                                                       float* c, int ldc, long long, int batch) {
  return product("cublasSgemmStridedBatched", h, ta, tb, m, n, k, {a, CUDA_R_32F, lda}, {b, CUDA_R_32F, ldb},
                 {c, CUDA_R_32F, ldc}, batch, true);
}
FAKE_CUDA_API cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta,
                                                       cublasOperation_t tb, int m, int n, int k,
                                                       const double*, const double* a, int lda, long long,
                                                       const double* b, int ldb, long long, const double*,
                                                       double* c, int ldc, long long, int batch) {
  return product("cublasDgemmStridedBatched", h, ta, tb, m, n, k, {a, CUDA_R_64F, lda}, {b, CUDA_R_64F, ldb},
                 {c, CUDA_R_64F, ldc}, batch);
}
FAKE_CUDA_API cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                                          int n, int k, const void*, const void* a, cudaDataType at, int lda,
                                          const void* b, cudaDataType bt, int ldb, const void*, void* c,
                                          cudaDataType ct, int ldc, cublasComputeType_t, cublasGemmAlgo_t) {
  return product("cublasGemmEx", h, ta, tb, m, n, k, {a, at, lda}, {b, bt, ldb}, {c, ct, ldc}, 1);
}
FAKE_CUDA_API cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                           int m, int n, int k, const float*, const void* a, cudaDataType at,
                                           int lda, const void* b, cudaDataType bt, int ldb, const float*,
                                           void* c, cudaDataType ct, int ldc) {
  return product("cublasSgemmEx", h, ta, tb, m, n, k, {a, at, lda}, {b, bt, ldb}, {c, ct, ldc}, 1);
}
FAKE_CUDA_API cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta,
                                                        cublasOperation_t tb, int m, int n, int k,
                                                        const void*, const void* a, cudaDataType at, int lda,
                                                        long long, const void* b, cudaDataType bt, int ldb,
                                                        long long, const void*, void* c, cudaDataType ct,
                                                        int ldc, long long, int batch, cublasComputeType_t,
                                                        cublasGemmAlgo_t) {
  return product("cublasGemmStridedBatchedEx", h, ta, tb, m, n, k, {a, at, lda}, {b, bt, ldb}, {c, ct, ldc},
                 batch);
}
FAKE_CUDA_API cublasStatus_t cublasStrsm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t,
                                            cublasOperation_t, cublasDiagType_t, int m, int n, const float*,
                                            const float* a, int lda, float* b, int ldb) {
  return triangular_solve("cublasStrsm", h, side, m, n, a, lda, b, ldb, 1);
}
FAKE_CUDA_API cublasStatus_t cublasDtrsm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t,
                                            cublasOperation_t, cublasDiagType_t, int m, int n, const double*,
                                            const double* a, int lda, double* b, int ldb) {
  return triangular_solve("cublasDtrsm", h, side, m, n, a, lda, b, ldb, 1);
}
// Here a and b are arrays of pointers in the device's memory.
FAKE_CUDA_API cublasStatus_t cublasStrsmBatched(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t,
                                                cublasOperation_t, cublasDiagType_t, int m, int n,
                                                const float*, const float* const a[], int lda,
                                                float* const b[], int ldb, int batch) {
  return triangular_solve("cublasStrsmBatched", h, side, m, n, a, lda, b, ldb, batch);
}
FAKE_CUDA_API cublasStatus_t cublasDtrsmBatched(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t,
                                                cublasOperation_t, cublasDiagType_t, int m, int n,
                                                const double*, const double* const a[], int lda,
                                                double* const b[], int ldb, int batch) {
  return triangular_solve("cublasDtrsmBatched", h, side, m, n, a, lda, b, ldb, batch);
}
FAKE_CUDA_API cublasStatus_t cublasSgemv_v2(cublasHandle_t h, cublasOperation_t, int m, int n, const float*,
                                            const float* a, int, const float* x, int, const float*, float* y,
                                            int) {
  return vectors("cublasSgemv", h, m, n, a, x, y);
}
FAKE_CUDA_API cublasStatus_t cublasDgemv_v2(cublasHandle_t h, cublasOperation_t, int m, int n, const double*,
                                            const double* a, int, const double* x, int, const double*,
                                            double* y, int) {
  return vectors("cublasDgemv", h, m, n, a, x, y);
}
FAKE_CUDA_API cublasStatus_t cublasSdot_v2(cublasHandle_t h, int n, const float* x, int, const float* y, int,
                                           float* result) {
  return vectors("cublasSdot", h, n, 1, x, y, result);
}
FAKE_CUDA_API cublasStatus_t cublasDdot_v2(cublasHandle_t h, int n, const double* x, int, const double* y,
                                           int, double* result) {
  return vectors("cublasDdot", h, n, 1, x, y, result);
}
FAKE_CUDA_API cublasStatus_t cublasDotEx(cublasHandle_t h, int n, const void* x, cudaDataType, int,
                                         const void* y, cudaDataType, int, void* result, cudaDataType,
                                         cudaDataType) {
  return vectors("cublasDotEx", h, n, 1, static_cast<const char*>(x), static_cast<const char*>(y), result);
}
