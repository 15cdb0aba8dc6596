#pragma once
#include <cstddef>
#include <string>

namespace optrush {
/// The functions of CUDA's driver API that load and launch code. The library libcuda.so.1 is opened at run
/// time.
struct CudaDriver {
  using Result = int;
  Result (*error_string)(Result, const char**) = nullptr;
  Result (*current_context)(void**) = nullptr;
  Result (*load)(void** module, const void* image) = nullptr;
  Result (*function)(void** function, void* module, const char* name) = nullptr;
  Result (*set_attribute)(void* function, int attribute, int value) = nullptr;
  Result (*occupancy)(int* blocks, void* function, int threads, size_t shared) = nullptr;
  Result (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned shared, void* stream, void** arguments, void** extra) = nullptr;
  /// Returns offset and size of an argument; null before CUDA 12.4.
  Result (*argument)(void* function, size_t index, size_t* offset, size_t* size) = nullptr;

  /// The driver of this process. Throws an Error if there is none.
  static const CudaDriver& open();
  void check(Result, const std::string& what) const;
};
}  // namespace optrush
