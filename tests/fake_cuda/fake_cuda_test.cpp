// Planted faults are reported by name, and correct programs have no faults. Kernels are real machine code,
// compiled by NVRTC.
#include "fake_cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "optrush/gpu_kernel.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Before the first call, because the fake library refuses accidental use.
const bool chosen = setenv("FAKE_CUDA", "1", 1) == 0 && setenv("FAKE_CUDA_DEVICES", "2", 1) == 0;

std::string faults() {
  std::string text(fake_cuda_faults(nullptr, 0), '\0');
  fake_cuda_faults(text.data(), text.size());
  text.pop_back();
  return text;
}
FakeCudaCounts counts() {
  FakeCudaCounts c{};
  fake_cuda_counts(&c);
  return c;
}

CUfunction load(const char* source, const char* name) {
  const GpuCode code = compile_gpu_kernel({.file = "set.cu", .text = source}, name, "sm_90");
  CUmodule module{};
  CUfunction made{};
  EXPECT_EQ(cuModuleLoadData(&module, code.image.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&made, module, code.symbol.c_str()), CUDA_SUCCESS);
  return made;
}

/// set<T>(T* x, long long count, float value).
CUfunction kernel() {
  static const CUfunction function = load(R"(
template <class T>
__global__ void __launch_bounds__(256) set(T* x, long long count, float value) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) x[i] = value;
}
)",
                                          "set<float>");
  return function;
}
CUresult set(void* x, cudaStream_t stream = nullptr, unsigned threads = 256, unsigned blocks = 1,
             unsigned shared = 0) {
  long long count = 256;
  float value = 1;
  void* arguments[] = {&x, &count, &value};
  return cuLaunchKernel(kernel(), blocks, 1, 1, threads, 1, 1, shared, stream, arguments, nullptr);
}

class FakeCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    cudaSetDevice(0);
    fake_cuda_reset();
  }
  void TearDown() override {
    for (void* p : made_) cudaFree(p);
    fake_cuda_reset();  // because a process with faults fails
    cudaGetLastError();
  }
  float* memory(size_t bytes = 4096) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, bytes), cudaSuccess);
    made_.push_back(p);
    return static_cast<float*>(p);
  }
  cudaStream_t stream() {
    cudaStream_t s{};
    EXPECT_EQ(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
    return s;
  }
  std::vector<void*> made_;
};

TEST_F(FakeCuda, DeviceNameSaysThatItIsFake) {
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 0);
  EXPECT_STREQ(properties.name, "FAKE (nothing is computed)");
  EXPECT_EQ(properties.major, 9);
  int devices = 0;
  cudaGetDeviceCount(&devices);
  EXPECT_EQ(devices, 2);
}

TEST_F(FakeCuda, CorrectProgramIsCountedWithoutFaults) {
  float* x = memory();
  const float sent = 3;
  float back = 0;
  EXPECT_EQ(cudaMemcpy(x, &sent, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(&back, x, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, 3) << "copied bytes are known until a kernel runs";
  EXPECT_EQ(set(x), CUDA_SUCCESS);
  EXPECT_EQ(cudaMemcpy(&back, x, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_NEAR(back, 1, 1e-4) << "bytes that a kernel wrote are unknown";
  EXPECT_EQ(counts().launches, 1U);
  EXPECT_EQ(counts().copies_to_device, 1U);
  EXPECT_EQ(counts().copies_to_host, 2U);
  EXPECT_EQ(counts().waits, 3U);
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeCuda, ReadsTheParametersOfACubin) {
  size_t offset = 0, bytes = 0;
  ASSERT_EQ(cuFuncGetParamInfo(kernel(), 2, &offset, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(offset, 16U);
  EXPECT_EQ(bytes, 4U);
  EXPECT_EQ(cuFuncGetParamInfo(kernel(), 3, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeCuda, HostPointers) {
  std::vector<float> host(1024);
  EXPECT_EQ(set(host.data()), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(faults(), HasSubstr("argument 0 points at memory of the host"));
}

TEST_F(FakeCuda, FreedPointers) {
  void* x = nullptr;
  cudaMalloc(&x, 4096);
  cudaFree(x);
  EXPECT_EQ(set(x), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(faults(), HasSubstr("argument 0 points at freed device memory"));
  EXPECT_EQ(cudaFree(x), cudaErrorInvalidValue);
  EXPECT_THAT(faults(), HasSubstr("cudaFree: not an allocation, or freed already"));
}

TEST_F(FakeCuda, MemoryOfAnotherDevice) {
  float* x = memory();
  cudaSetDevice(1);
  EXPECT_EQ(set(x), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(faults(), HasSubstr("memory of device 0 on device 1"));
}

TEST_F(FakeCuda, AStreamOfAnotherDevice) {
  const cudaStream_t s = stream();
  cudaSetDevice(1);
  EXPECT_EQ(set(memory(), s), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_THAT(faults(), HasSubstr("device 1 is current, the stream is of device 0"));
}

TEST_F(FakeCuda, MissingArguments) {
  void* x = memory();
  void* arguments[] = {&x, nullptr, nullptr};
  EXPECT_EQ(cuLaunchKernel(kernel(), 1, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(faults(), HasSubstr("argument 1 is missing"));
}

TEST_F(FakeCuda, TooManyThreads) {
  EXPECT_EQ(set(memory(), nullptr, 257), static_cast<CUresult>(cudaErrorInvalidConfiguration));
  EXPECT_THAT(faults(), HasSubstr("too many threads (at most 256)"));
  EXPECT_EQ(set(memory(), nullptr, 256, 0), static_cast<CUresult>(cudaErrorInvalidConfiguration));
  EXPECT_THAT(faults(), HasSubstr("nothing to run"));
}

TEST_F(FakeCuda, TooMuchSharedMemory) {
  EXPECT_EQ(set(memory(), nullptr, 256, 1, 60 << 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(faults(), HasSubstr("more shared memory than was asked for"));
  fake_cuda_reset();
  ASSERT_EQ(cuFuncSetAttribute(kernel(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60 << 10),
            CUDA_SUCCESS);
  EXPECT_EQ(set(memory(), nullptr, 256, 1, 60 << 10), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncSetAttribute(kernel(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 << 10),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(faults(), IsEmpty()) << "asking for too much memory is an error, not a fault";
}

/// 48 KiB need no opt-in. The system's 1 KiB in a cubin for sm_90 does not count.
TEST_F(FakeCuda, SystemSharedMemoryDoesNotCountTowardsTheLimit) {
  const CUfunction reversed = load(R"(
template <class T>
__global__ void reversed(T* x) {
  __shared__ T own[64];
  extern __shared__ T asked[];
  own[threadIdx.x] = asked[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = own[63 - threadIdx.x] + asked[63 - threadIdx.x];
}
)",
                                   "reversed<float>");
  int own = 0;
  ASSERT_EQ(cuFuncGetAttribute(&own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, reversed), CUDA_SUCCESS);
  EXPECT_EQ(own, 64 * 4);
  void* x = memory();
  void* arguments[] = {&x};
  const auto launch = [&](unsigned shared) {
    return cuLaunchKernel(reversed, 1, 1, 1, 64, 1, 1, shared, nullptr, arguments, nullptr);
  };
  EXPECT_EQ(launch((48 << 10) - 256), CUDA_SUCCESS);
  EXPECT_THAT(faults(), IsEmpty());
  EXPECT_EQ(launch((48 << 10) - 255), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(faults(), HasSubstr("more shared memory than was asked for"));
}

TEST_F(FakeCuda, CopiesBeyondAnAllocation) {
  std::vector<float> host(1 << 20);
  EXPECT_EQ(cudaMemcpy(memory(), host.data(), 4 << 20, cudaMemcpyHostToDevice), cudaErrorIllegalAddress);
  EXPECT_THAT(faults(), HasSubstr("destination is not inside an allocation"));
}

TEST_F(FakeCuda, HostReadsOfDeviceMemory) {
  const volatile float* x = memory();
  EXPECT_EXIT({ [[maybe_unused]] const float value = *x; }, ::testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(FakeCuda, InvalidStreams) {
  EXPECT_EQ(set(memory(), reinterpret_cast<cudaStream_t>(0x1234)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_THAT(faults(), HasSubstr("no such stream"));
}

TEST_F(FakeCuda, OutOfMemoryIsAnErrorButNotAFault) {
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 1ULL << 40), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_THAT(faults(), IsEmpty());
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  EXPECT_EQ(total, 85017493504U);
}

/// Captures `work` on a stream. Returns the result of ending the capture.
template <class F>
cudaError_t captured(cudaStream_t s, F&& work) {
  EXPECT_EQ(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), cudaSuccess);
  work();
  cudaGraph_t graph{};
  const cudaError_t error = cudaStreamEndCapture(s, &graph);
  if (graph) {
    cudaGraphExec_t executable{};
    EXPECT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(executable, s), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(executable, s), cudaSuccess);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }
  return error;
}

TEST_F(FakeCuda, ReplaysACapture) {
  const cudaStream_t s = stream();
  float* x = memory();
  EXPECT_EQ(captured(s,
                     [&] {
                       set(x, s);
                       set(x, s);
                     }),
            cudaSuccess);
  EXPECT_EQ(counts().replays, 2U);
  EXPECT_EQ(counts().launches, 4U) << "two launches, replayed twice";
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeCuda, WaitsInACapture) {
  const cudaStream_t s = stream();
  EXPECT_EQ(captured(s, [&] { EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported); }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_THAT(faults(), HasSubstr("the host waits for a stream that captures"));
  EXPECT_EQ(captured(s, [] { EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported); }),
            cudaErrorStreamCaptureInvalidated);
  void* p = nullptr;
  EXPECT_EQ(captured(s, [&] { EXPECT_EQ(cudaMalloc(&p, 1), cudaErrorStreamCaptureUnsupported); }),
            cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeCuda, PageableCopiesInACapture) {
  const cudaStream_t s = stream();
  float* x = memory();
  float host = 0;
  EXPECT_EQ(captured(s, [&] { cudaMemcpyAsync(x, &host, 4, cudaMemcpyHostToDevice, s); }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_THAT(faults(), HasSubstr("a copy of pageable memory in a capture"));
  fake_cuda_reset();
  void* pinned = nullptr;
  cudaHostAlloc(&pinned, 4, 0);
  EXPECT_EQ(captured(s, [&] { cudaMemcpyAsync(x, pinned, 4, cudaMemcpyHostToDevice, s); }), cudaSuccess);
  cudaFreeHost(pinned);
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeCuda, UnjoinedForks) {
  const cudaStream_t s = stream(), side = stream();
  float* x = memory();
  cudaEvent_t fork{}, join{};
  cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
  const auto work = [&](bool joined) {
    cudaEventRecord(fork, s);
    cudaStreamWaitEvent(side, fork, 0);
    set(x, side);
    if (!joined) return;
    cudaEventRecord(join, side);
    cudaStreamWaitEvent(s, join, 0);
  };
  EXPECT_EQ(captured(s, [&] { work(false); }), cudaErrorStreamCaptureUnjoined);
  EXPECT_THAT(faults(), HasSubstr("1 forked stream(s) have work that nothing joined"));
  fake_cuda_reset();
  EXPECT_EQ(captured(s, [&] { work(true); }), cudaSuccess);
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeCuda, TensorsFreedWhileAnotherStreamUsesThem) {
  const cudaStream_t side = stream();
  float* x = memory();
  fake_cuda_block_allocated(x, 1024, nullptr);
  set(x, side);
  fake_cuda_block_freed(x);
  fake_cuda_block_allocated(x, 1024, nullptr);
  EXPECT_THAT(faults(), HasSubstr("still uses it (a tensor was freed without record_stream)"));

  fake_cuda_reset();  // an event between the streams orders them
  set(x, side);
  fake_cuda_block_freed(x);
  cudaEvent_t done{};
  cudaEventCreate(&done);
  cudaEventRecord(done, side);
  cudaStreamWaitEvent(nullptr, done, 0);
  fake_cuda_block_allocated(x, 1024, nullptr);
  EXPECT_THAT(faults(), IsEmpty());

  set(x, side);  // a wait of the host orders them as well
  fake_cuda_block_freed(x);
  cudaStreamSynchronize(side);
  fake_cuda_block_allocated(x, 1024, nullptr);
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeCuda, LeakedMemory) {
  const FakeCudaCounts before = counts();
  void* p = nullptr;
  for (int step = 0; step < 3; ++step) cudaMalloc(&p, 4096), made_.push_back(p);
  EXPECT_EQ((counts().allocations - counts().frees) - (before.allocations - before.frees), 3U);
}
}  // namespace
}  // namespace optrush::testing
