#pragma once
#include <library_types.h>

namespace fake_cuda {
/// The size of a cudaDataType.
inline const char* name_of_type(int type) {
  switch (type) {
    case CUDA_R_64F:
      return "fp64";
    case CUDA_R_32F:
      return "fp32";
    case CUDA_R_16F:
      return "fp16";
    case CUDA_R_16BF:
      return "bf16";
    case CUDA_R_8F_E4M3:
      return "e4m3";
    case CUDA_R_8F_E5M2:
      return "e5m2";
    case CUDA_R_8I:
      return "int8";
    case CUDA_R_32I:
      return "int32";
    default:
      return "another type";
  }
}
inline bool is_float8(int type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }
}  // namespace fake_cuda
