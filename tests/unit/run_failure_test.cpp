// The status of a run that throws.
#include "worker/run_failure.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>

#include "base/peer_error.h"
#include "optrush/error.h"

namespace optrush {
namespace {
RunResult of_torch(const std::string& message) {
  try {
    TORCH_CHECK(false, message);
  } catch (const std::exception& e) {
    return failure_of(e);
  }
  return {};
}

TEST(RunFailure, ParsesBytesInEveryUnitOfLibTorch) {
  EXPECT_EQ(requested_bytes("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of "
                            "139.80 GiB of which 1.00 GiB is free."),
            int64_t{5} << 29);
  EXPECT_EQ(requested_bytes("CUDA out of memory. Tried to allocate 20.00 MiB."), 20 << 20);
  EXPECT_EQ(requested_bytes("CUDA out of memory. Tried to allocate 512 bytes."), 512);
  for (const char* number : {"inf", "nan", "-1", "1e3", "99999999999999999999", "", "some"})
    EXPECT_FALSE(requested_bytes(std::string("Tried to allocate ") + number + " GiB.")) << number;
  EXPECT_EQ(requested_bytes("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."),
            4096);
  EXPECT_EQ(requested_bytes("the GPU has 2.50 GiB"), std::nullopt);
}

TEST(RunFailure, OutOfMemoryOfEveryLibraryIsOom) {
  for (const char* message : {"DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes.",
                              "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
                              "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
                              "NCCL error: unhandled cuda error\nncclUnhandledCudaError\nLast error:\nCuda "
                              "failure 2 'out of memory'",
                              "CUDA error: out of memory\nSearch for `cudaErrorMemory"}) {
    const RunResult failure = of_torch(message);
    EXPECT_EQ(failure.status, Status::oom) << message;
    EXPECT_EQ(failure.reason.find("Exception raised from"), std::string::npos);
  }
  EXPECT_EQ(failure_of(std::bad_alloc()).status, Status::oom);
  // The error of a plugin arrives as an Error of the host, with the plugin's place in front.
  EXPECT_EQ(failure_of(Error("CUDA out of memory. Tried to allocate 1.00 GiB.")).requested_bytes, 1 << 30);
}

TEST(RunFailure, OtherFailures) {
  EXPECT_EQ(of_torch("CUDA error: an illegal memory access was encountered").status, Status::failed);
  EXPECT_EQ(failure_of(Error("no", "try")).status, Status::failed);
  EXPECT_EQ(failure_of(Skip("no GPU")).status, Status::skipped);
}

TEST(RunFailure, KeepsTheCodeAndThePlaceOfAnError) {
  const RunResult own = failure_of(Error(ErrorCode::diverged, "no", "try", "step 3"));
  EXPECT_EQ(own.code, ErrorCode::diverged);
  EXPECT_EQ(own.where, "step 3");
  EXPECT_EQ(failure_of(Error("a plugin says no")).code, ErrorCode::unsupported);
  EXPECT_EQ(failure_of(Skip("no GPU")).code, ErrorCode::missing_requirement);
  EXPECT_EQ(failure_of(Skip(ErrorCode::unsupported, "nothing to pad")).code, ErrorCode::unsupported);
  EXPECT_EQ(failure_of(PeerError(PeerError::Cause::gone, "it left")).code, ErrorCode::rank_lost);
  EXPECT_EQ(failure_of(std::bad_alloc()).code, ErrorCode::out_of_memory);
  EXPECT_EQ(of_torch("CUDA error: an illegal memory access was encountered").code, ErrorCode::internal);
}
}  // namespace
}  // namespace optrush
