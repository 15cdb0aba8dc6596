#include "kernel_parts/gpu_instance.h"

#include <algorithm>

#include "adamw_cuh.h"
#include "lanes_cuh.h"
#include "sigmoid_cuh.h"
#include "to_8_bits_cuh.h"
#include "turned_tile_cuh.h"

namespace optrush::fused {
GpuSource gpu::source(const char* file, const char* text) {
  return {.file = file,
          .text = text,
          .headers = {{"adamw.cuh", kAdamwCuh},
                      {"lanes.cuh", kLanesCuh},
                      {"sigmoid.cuh", kSigmoidCuh},
                      {"to_8_bits.cuh", kTo8BitsCuh},
                      {"turned_tile.cuh", kTurnedTileCuh}}};
}

std::string gpu::argument(Type type) {
  switch (type) {
    case Type::fp32:
      return "float";
    case Type::fp64:
      return "double";
    case Type::bf16:
      return "__nv_bfloat16";
    case Type::fp16:
      return "__half";
  }
  return "";
}
std::string gpu::argument(int64_t number) { return std::to_string(number); }
std::string gpu::argument(bool truth) { return truth ? "true" : "false"; }

int64_t gpu::lanes(std::initializer_list<Type> types, int64_t width,
                   std::initializer_list<const void*> addresses) {
  int64_t widest = 1;
  for (const Type type : types) widest = std::max(widest, size_of(type));
  const int64_t lanes = 16 / widest;
  bool fits = width % lanes == 0;
  for (const void* address : addresses) fits = fits && reinterpret_cast<uintptr_t>(address) % 16 == 0;
  return fits ? lanes : 1;
}
}  // namespace optrush::fused
