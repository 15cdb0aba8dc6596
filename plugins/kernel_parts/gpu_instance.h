#pragma once
#include <initializer_list>
#include <string>

#include "kernel_parts/type.h"
#include "optrush/gpu_kernel.h"

/// Instances of the templates in .cu files: by type, and by the number of elements per load.
namespace optrush::fused::gpu {
/// A source that may include the .cuh files of this folder.
GpuSource source(const char* file, const char* text);

/// "name<float, 4, true>": types, numbers and truth values as CUDA C++ writes them.
std::string argument(Type);
std::string argument(int64_t);
std::string argument(bool);
template <class... Arguments>
std::string instance(const std::string& name, const Arguments&... arguments) {
  std::string list;
  ((list += (list.empty() ? "" : ", ") + argument(arguments)), ...);
  return name + "<" + list + ">";
}

/// Elements of the widest type in 16 bytes, so that the loads of a warp fill whole sectors; 1 if rows of
/// `width` or addresses are not aligned to 16 bytes.
int64_t lanes(std::initializer_list<Type>, int64_t width, std::initializer_list<const void*> addresses);
}  // namespace optrush::fused::gpu
