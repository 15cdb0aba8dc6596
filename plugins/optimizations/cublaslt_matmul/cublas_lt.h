#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

/// The part of cuBLASLt that this plugin calls, as <cublasLt.h> of CUDA 12 and 13 declares it. The header is
/// in the CUDA toolkit and beside a CUDA build of LibTorch only, and its interface is stable, so the plugin
/// builds without it. The test `fake_cuda` compares sizes and values with the header.
namespace optrush::cublaslt_matmul {
using Status = int;  ///< cublasStatus_t; 0: success
inline constexpr Status kSuccess = 0;

/// cudaDataType_t
inline constexpr int kFp32 = 0, kFp16 = 2, kBf16 = 14;
/// cublasComputeType_t: CUBLAS_COMPUTE_32F and CUBLAS_COMPUTE_32F_FAST_TF32
inline constexpr int kSumsInFp32 = 68, kSumsOfTf32 = 77;
/// cublasLtMatmulDescAttributes_t
inline constexpr int kTransposesA = 3, kTransposesB = 4;
/// cublasLtMatmulPreferenceAttributes_t
inline constexpr int kMostWorkspace = 1, kReductionSchemes = 3, kAlignmentOfA = 5, kAlignmentOfB = 6,
                     kAlignmentOfC = 7, kAlignmentOfD = 8;
/// cublasLtReductionScheme_t: parts of a sum are added in the type of the sums, not in the result's
inline constexpr uint32_t kAddsPartsInFp32 = 2;

/// cublasLtMatmulAlgo_t. The header: it can be stored and restored for use with the same version of cuBLAS.
struct Algorithm {
  std::array<uint64_t, 8> data = {};
  bool operator==(const Algorithm&) const = default;
};

/// cublasLtMatmulHeuristicResult_t
struct Candidate {
  Algorithm algorithm;
  size_t workspace = 0;  ///< bytes that it needs
  Status state = kSuccess;
  float waves = 0;
  std::array<int, 4> reserved = {};
};

/// The functions of the library in this process. libtorch_cuda has loaded it, so nothing is opened here.
struct CublasLt {
  /// Null if the process has no cuBLASLt.
  static const CublasLt* find();

  size_t (*version)();  ///< 130200: 13.2.0
  Status (*create)(void** handle);
  Status (*destroy)(void* handle);
  Status (*create_product)(void** product, int compute_type, int scale_type);
  Status (*destroy_product)(void* product);
  Status (*set_product)(void* product, int attribute, const void* value, size_t bytes);
  Status (*create_layout)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
  Status (*destroy_layout)(void* layout);
  Status (*create_preference)(void** preference);
  Status (*destroy_preference)(void* preference);
  Status (*set_preference)(void* preference, int attribute, const void* value, size_t bytes);
  /// At most `wanted` candidates, the one that is expected to be the fastest first.
  Status (*candidates)(void* handle, void* product, void* a, void* b, void* c, void* d, void* preference,
                       int wanted, Candidate* results, int* found);
  /// Whether the algorithm can compute the product, and the workspace that it needs.
  Status (*check)(void* handle, void* product, void* a, void* b, void* c, void* d, const Algorithm*,
                  Candidate* result);
  Status (*multiply)(void* handle, void* product, const void* alpha, const void* a, void* a_layout,
                     const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
                     void* d_layout, const Algorithm*, void* workspace, size_t workspace_bytes, void* stream);
};

/// A handle or a descriptor, which ends with the object.
using Owned = std::unique_ptr<void, Status (*)(void*)>;
}  // namespace optrush::cublaslt_matmul
