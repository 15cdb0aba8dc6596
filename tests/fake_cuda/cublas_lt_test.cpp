// cuBLASLt on the stand-in: planted faults are reported, and the declarations of cublaslt_matmul equal those
// of <cublasLt.h>.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "cublaslt_matmul/cublas_lt.h"
#include "fake_cuda.h"

namespace optrush::cublaslt_matmul {
namespace {
static_assert(kSuccess == CUBLAS_STATUS_SUCCESS && sizeof(Status) == sizeof(cublasStatus_t));
static_assert(kFp32 == CUDA_R_32F && kFp16 == CUDA_R_16F && kBf16 == CUDA_R_16BF);
static_assert(kSumsInFp32 == CUBLAS_COMPUTE_32F && kSumsOfTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kTransposesA == CUBLASLT_MATMUL_DESC_TRANSA && kTransposesB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1);
static_assert(kMostWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kReductionSchemes == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(kAlignmentOfA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kAlignmentOfB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(kAlignmentOfC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(kAlignmentOfD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kAddsPartsInFp32 == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Candidate) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Candidate, workspace) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Candidate, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(Candidate, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

template <class Result, class... Arguments>
constexpr size_t arguments_of(Result (*)(Arguments...)) {
  return sizeof...(Arguments);
}
static_assert(arguments_of(decltype(CublasLt::multiply){}) == arguments_of(&cublasLtMatmul));
static_assert(arguments_of(decltype(CublasLt::candidates){}) ==
              arguments_of(&cublasLtMatmulAlgoGetHeuristic));
static_assert(arguments_of(decltype(CublasLt::check){}) == arguments_of(&cublasLtMatmulAlgoCheck));
static_assert(arguments_of(decltype(CublasLt::create_layout){}) == arguments_of(&cublasLtMatrixLayoutCreate));

const bool stand_in_chosen = setenv("FAKE_CUDA", "1", 1) == 0;

std::string faults_of_calls() {
  std::string text(fake_cuda_faults(nullptr, 0), '\0');
  fake_cuda_faults(text.data(), text.size());
  text.pop_back();
  return text;
}

/// D (m, n) = A (m, k) B (k, n) in fp32, by columns.
struct PlantedProduct {
  explicit PlantedProduct(uint64_t m, uint64_t n, uint64_t k, int64_t rows_apart = 0) {
    cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, m, k, rows_apart > 0 ? rows_apart : static_cast<int64_t>(m));
    cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, k, n, static_cast<int64_t>(k));
    cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, m, n, static_cast<int64_t>(m));
    cublasLtMatmulPreferenceCreate(&preference);
    const uint64_t most = 4 << 20;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                         sizeof most);
  }
  ~PlantedProduct() {
    cublasLtMatmulPreferenceDestroy(preference);
    for (const auto layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(product);
  }
  PlantedProduct(const PlantedProduct&) = delete;
  PlantedProduct& operator=(const PlantedProduct&) = delete;

  std::vector<cublasLtMatmulHeuristicResult_t> candidates(int wanted) const {
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(wanted));
    int number = 0;
    cublasLtMatmulAlgoGetHeuristic(nullptr, product, a, b, d, d, preference, wanted, found.data(), &number);
    found.resize(static_cast<size_t>(number));
    return found;
  }
  cublasStatus_t run(void* memory, const cublasLtMatmulAlgo_t& algorithm, size_t workspace = 4 << 20) const {
    const float one = 1, zero = 0;
    return cublasLtMatmul(nullptr, product, &one, memory, a, memory, b, &zero, memory, d, memory, d,
                          &algorithm, memory, workspace, nullptr);
  }

  cublasLtMatmulDesc_t product{};
  cublasLtMatrixLayout_t a{}, b{}, d{};
  cublasLtMatmulPreference_t preference{};
};

class CublasLtOnStandIn : public ::testing::Test {
 protected:
  void SetUp() override {
    cudaMalloc(&memory_, 8 << 20);
    fake_cuda_reset();
  }
  void TearDown() override {
    cudaFree(memory_);
    fake_cuda_reset();
    cudaGetLastError();
  }
  void* memory_ = nullptr;
};

TEST_F(CublasLtOnStandIn, FindsAsManyAlgorithmsAsAreWantedAndRunsEach) {
  const PlantedProduct product(64, 32, 16);
  const auto found = product.candidates(8);
  ASSERT_EQ(found.size(), 8U);
  for (const auto& each : found) EXPECT_EQ(product.run(memory_, each.algo), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(faults_of_calls(), "");
}

TEST_F(CublasLtOnStandIn, AnAlgorithmOfAnotherProductIsAFault) {
  const PlantedProduct product(64, 32, 16), other(64, 32, 48);
  const auto algorithm = other.candidates(1).at(0).algo;
  cublasLtMatmulHeuristicResult_t checked{};
  EXPECT_EQ(cublasLtMatmulAlgoCheck(nullptr, product.product, product.a, product.b, product.d, product.d,
                                    &algorithm, &checked),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(faults_of_calls(), "") << "to ask is allowed";
  EXPECT_NE(product.run(memory_, algorithm), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(faults_of_calls(), ::testing::HasSubstr("the algorithm was not found for this product"));
}

TEST_F(CublasLtOnStandIn, AWorkspaceThatIsTooSmallIsAFault) {
  const PlantedProduct product(64, 32, 16);
  for (const auto& each : product.candidates(8)) {
    const bool fits = product.run(memory_, each.algo, 512) == CUBLAS_STATUS_SUCCESS;
    EXPECT_EQ(fits, each.workspaceSize == 0);
  }
  EXPECT_THAT(faults_of_calls(), ::testing::HasSubstr("the workspace is smaller than the algorithm needs"));
}

TEST_F(CublasLtOnStandIn, ColumnsThatOverlapAreAFault) {
  const PlantedProduct product(64, 32, 16, /*rows_apart=*/63);
  EXPECT_TRUE(product.candidates(1).empty());
  EXPECT_THAT(faults_of_calls(), ::testing::HasSubstr("a leading dimension is too small"));
}
}  // namespace
}  // namespace optrush::cublaslt_matmul
