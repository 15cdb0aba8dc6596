#pragma once
#include <cstddef>
#include <string>

namespace optrush {
/// The part of CUDA's driver interface that loads and launches code, opened at run time from libcuda.so.1.
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
  /// Offset and size of an argument; null before CUDA 12.4.
  Result (*argument)(void* function, size_t index, size_t* offset, size_t* size) = nullptr;

  /// The one of this process. An Error where there is no driver.
  static const CudaDriver& open();
  void check(Result, const std::string& what) const;
};
}  // namespace optrush
