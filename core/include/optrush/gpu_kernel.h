#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "optrush/tensor.h"

namespace optrush {
/// CUDA C++ source that NVRTC compiles at run time for the present GPU.
struct GpuSource {
  std::string file;  ///< name in messages: "norm.cu"
  std::string text;
  std::map<std::string, std::string> headers = {};  ///< included headers except CUDA's: name to text
  std::vector<std::string> options = {};            ///< options of NVRTC in addition to C++17: "-DROWS=4"
};

/// One kernel in machine code.
struct GpuCode {
  std::string image;   ///< a cubin
  std::string symbol;  ///< the kernel's name in it
};

/// Compiles `kernel` ("scale", or an instance of a template: "scale<float, 4>") for an architecture: "sm_90".
/// Needs NVRTC, but no GPU. Compiled kernels are cached in the folder `kernels` of $OPTRUSH_CACHE or
/// ~/.cache/optimization-rush. Throws an Error with NVRTC's log and the source line.
GpuCode compile_gpu_kernel(const GpuSource&, const std::string& kernel, const std::string& architecture);

/// The architecture of the current device: "sm_90". Throws an Error without a GPU.
std::string gpu_architecture();

/// CUDA's name of a tensor's type, for instances of templates: "float", "double", "__half", "__nv_bfloat16".
std::string cuda_type(at::ScalarType);

/// Blocks and threads of a launch. `shared`: dynamic shared memory of a block, in bytes.
struct GpuGrid {
  std::array<int64_t, 3> blocks = {1, 1, 1};
  std::array<int64_t, 3> threads = {1, 1, 1};
  int64_t shared = 0;
};

/// A kernel on one GPU. Belongs to its GpuProgram.
class GpuKernel {
 public:
  /// Launches the kernel on the current stream of the current device. The arguments must have exactly the
  /// kernel's types: pointers, numbers, plain structs. Their number and sizes are checked.
  template <class... Arguments>
  void launch(const GpuGrid& grid, const Arguments&... arguments) const {
    static_assert((std::is_trivially_copyable_v<Arguments> && ...), "an argument is copied byte by byte");
    const void* addresses[] = {&arguments..., nullptr};
    const size_t sizes[] = {sizeof(Arguments)..., 0};
    enqueue(grid, addresses, sizes, sizeof...(Arguments));
  }
  /// Number of blocks that run on the whole GPU at the same time.
  int64_t resident_blocks(int64_t threads, int64_t shared = 0) const;

  class Loaded;
  explicit GpuKernel(std::unique_ptr<Loaded>);
  ~GpuKernel();

 private:
  void enqueue(const GpuGrid&, const void* const* arguments, const size_t* sizes, size_t count) const;
  std::unique_ptr<Loaded> loaded_;
};

/// The kernels of one source. Each is compiled and loaded at its first use on a GPU.
class GpuProgram {
 public:
  explicit GpuProgram(GpuSource);
  ~GpuProgram();
  /// The kernel for the current device; `name` as in compile_gpu_kernel.
  const GpuKernel& kernel(const std::string& name) const;
  const GpuSource& source() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};
}  // namespace optrush
