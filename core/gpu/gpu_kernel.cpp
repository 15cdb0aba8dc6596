#include "optrush/gpu_kernel.h"

#include <dlfcn.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

#include "gpu/architecture.h"
#include "machine/library_symbol.h"
#include "optrush/error.h"
#ifdef OPTRUSH_HAS_CUDA
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

namespace optrush {
namespace {
void* open_driver() {
  if (void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) return library;
  throw Error(ErrorCode::missing_requirement, "no NVIDIA driver: libcuda.so.1 was not found",
              "GPU kernels need a machine with an NVIDIA GPU");
}

/// The functions of CUDA's driver API that load and launch code. libcuda.so.1 is opened at run time.
struct CudaDriver {
  using Result = int;
  /// The driver of this process. Throws an Error if there is none.
  static const CudaDriver& open() {
    static const CudaDriver driver;
    return driver;
  }
  void check(Result, const std::string& what) const;
  LibrarySymbol find(const char* name) const {
    const LibrarySymbol found(library, name);
    if (found.address == nullptr)
      throw Error(ErrorCode::missing_requirement,
                  "libcuda.so.1 lacks functions that every driver since CUDA 9 has",
                  "reinstall the NVIDIA driver");
    return found;
  }

  void* library = open_driver();
  Result (*error_string)(Result, const char**) = find("cuGetErrorString");
  Result (*current_context)(void**) = find("cuCtxGetCurrent");
  Result (*load)(void** module, const void* image) = find("cuModuleLoadData");
  Result (*function)(void** function, void* module, const char* name) = find("cuModuleGetFunction");
  Result (*set_attribute)(void* function, int attribute, int value) = find("cuFuncSetAttribute");
  Result (*occupancy)(int* blocks, void* function, int threads,
                      size_t shared) = find("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  Result (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned shared, void* stream, void** arguments, void** extra) = find("cuLaunchKernel");
  /// Returns offset and size of an argument; null before CUDA 12.4.
  Result (*argument)(void* function, size_t index, size_t* offset,
                     size_t* size) = LibrarySymbol(library, "cuFuncGetParamInfo");
};

void CudaDriver::check(Result result, const std::string& what) const {
  if (result == 0) return;
  const char* text = nullptr;
  error_string(result, &text);
  throw Error(ErrorCode::internal,
              what + ": " + (text != nullptr ? text : "CUDA error " + std::to_string(result)));
}

/// The value of CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, and the size that needs no attribute.
constexpr int kMaxDynamicShared = 8;
constexpr int64_t kSharedWithoutAsking = 48 << 10;

struct Gpu {
  int index = 0, multiprocessors = 0;
  std::string architecture;
};

#ifdef OPTRUSH_HAS_CUDA
void check(cudaError_t status) {
  if (status != cudaSuccess)
    throw Error(ErrorCode::internal, std::string("CUDA: ") + cudaGetErrorString(status));
}

Gpu current_gpu() {
  Gpu gpu;
  int major = 0, minor = 0;
  check(cudaGetDevice(&gpu.index));
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu.index));
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu.index));
  check(cudaDeviceGetAttribute(&gpu.multiprocessors, cudaDevAttrMultiProcessorCount, gpu.index));
  gpu.architecture = "sm_" + std::to_string(major) + std::to_string(minor);
  return gpu;
}

int current_index() {
  int index = 0;
  check(cudaGetDevice(&index));
  return index;
}

void* current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

/// Calls of the driver need a context. The runtime creates it at a thread's first call that needs one.
void have_context(const CudaDriver& driver) {
  void* context = nullptr;
  driver.check(driver.current_context(&context), "CUDA has no context");
  if (context == nullptr) check(cudaFree(nullptr));
}
#else
[[noreturn]] void no_cuda() {
  throw Error(ErrorCode::missing_requirement, "GPU kernels need a CUDA build of LibTorch; this one has none");
}
Gpu current_gpu() { no_cuda(); }
int current_index() { no_cuda(); }
void* current_stream() { no_cuda(); }
void have_context(const CudaDriver&) { no_cuda(); }
#endif
}  // namespace

std::string current_architecture() { return current_gpu().architecture; }

std::string cuda_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float";
    case at::kDouble:
      return "double";
    case at::kHalf:
      return "__half";
    case at::kBFloat16:
      return "__nv_bfloat16";
    default:
      throw Error(ErrorCode::unsupported,
                  std::string("GPU kernels do not support tensors of type ") + c10::toString(type));
  }
}

/// The module is never unloaded, because queued work may still use it when the program ends.
class GpuKernel::Loaded {
 public:
  Loaded(std::string name, const GpuCode& code, Gpu gpu)
      : driver_(CudaDriver::open()), name_(std::move(name)), gpu_(std::move(gpu)) {
    have_context(driver_);
    void* module = nullptr;
    driver_.check(driver_.load(&module, code.image.data()), "kernel '" + name_ + "' cannot be loaded");
    driver_.check(driver_.function(&function_, module, code.symbol.c_str()),
                  "kernel '" + name_ + "' is missing in its module");
    if (driver_.argument == nullptr) return;
    for (size_t offset = 0, size = 0; driver_.argument(function_, sizes_.size(), &offset, &size) == 0;)
      sizes_.push_back(size);
    knows_sizes_ = true;
  }

  void launch(const GpuGrid& grid, const void* const* arguments, const size_t* sizes, size_t count) {
    check_arguments(sizes, count);
    have_context(driver_);
    allow_shared(grid.shared);
    const auto size = [](int64_t n) { return static_cast<unsigned>(n); };
    driver_.check(driver_.launch(function_, size(grid.blocks[0]), size(grid.blocks[1]), size(grid.blocks[2]),
                                 size(grid.threads[0]), size(grid.threads[1]), size(grid.threads[2]),
                                 size(grid.shared), current_stream(), const_cast<void**>(arguments), nullptr),
                  "kernel '" + name_ + "' cannot be launched");
  }

  int64_t resident_blocks(int64_t threads, int64_t shared) {
    have_context(driver_);
    allow_shared(shared);
    int blocks = 0;
    driver_.check(
        driver_.occupancy(&blocks, function_, static_cast<int>(threads), static_cast<size_t>(shared)),
        "cannot query the occupancy of kernel '" + name_ + "'");
    return int64_t{blocks} * gpu_.multiprocessors;
  }

 private:
  void check_arguments(const size_t* sizes, size_t count) const {
    if (!knows_sizes_) return;
    if (count != sizes_.size())
      throw Error(ErrorCode::invalid_plugin, "kernel '" + name_ + "' takes " + std::to_string(sizes_.size()) +
                                                 " arguments, but " + std::to_string(count) + " were given");
    for (size_t i = 0; i < count; ++i)
      if (sizes[i] != sizes_[i])
        throw Error(ErrorCode::invalid_plugin,
                    "argument " + std::to_string(i + 1) + " of kernel '" + name_ + "' has " +
                        std::to_string(sizes_[i]) + " bytes, but " + std::to_string(sizes[i]) + " were given",
                    "pass exactly the types of the kernel: int is not int64_t");
  }

  void allow_shared(int64_t bytes) {
    if (bytes <= kSharedWithoutAsking) return;
    driver_.check(driver_.set_attribute(function_, kMaxDynamicShared, static_cast<int>(bytes)),
                  "kernel '" + name_ + "' cannot use " + std::to_string(bytes) + " bytes of shared memory");
  }

  const CudaDriver& driver_;
  std::string name_;
  Gpu gpu_;
  void* function_ = nullptr;
  std::vector<size_t> sizes_;
  bool knows_sizes_ = false;
};

GpuKernel::GpuKernel(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
GpuKernel::~GpuKernel() = default;

void GpuKernel::enqueue(const GpuGrid& grid, const void* const* arguments, const size_t* sizes,
                        size_t count) const {
  loaded_->launch(grid, arguments, sizes, count);
}

int64_t GpuKernel::resident_blocks(int64_t threads, int64_t shared) const {
  return loaded_->resident_blocks(threads, shared);
}

class GpuProgram::State {
 public:
  explicit State(GpuSource source) : source_(std::move(source)) {}
  const GpuSource& source() const { return source_; }
  const GpuKernel& kernel(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto key = std::pair(current_index(), name);
    if (const auto found = kernels_.find(key); found != kernels_.end()) return found->second;
    Gpu gpu = current_gpu();
    const GpuCode code = compile_gpu_kernel(source_, name, gpu.architecture);
    return kernels_.try_emplace(key, std::make_unique<GpuKernel::Loaded>(name, code, std::move(gpu)))
        .first->second;
  }

 private:
  GpuSource source_;
  std::mutex mutex_;
  std::map<std::pair<int, std::string>, GpuKernel> kernels_;
};

GpuProgram::GpuProgram(GpuSource source) : state_(std::make_unique<State>(std::move(source))) {}
GpuProgram::~GpuProgram() = default;
const GpuKernel& GpuProgram::kernel(const std::string& name) const { return state_->kernel(name); }
const GpuSource& GpuProgram::source() const { return state_->source(); }
}  // namespace optrush
