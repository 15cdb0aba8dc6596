#include "gpu/programs.h"

#include "lanes_cuh.h"
#include "norm_cu.h"
#include "rotate_cu.h"
#include "swiglu_cu.h"

namespace optrush::fused {
namespace {
const char* cuda_name(Type type) {
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
std::string number(int64_t n) { return std::to_string(n); }

template <class... Arguments>
std::string instance(const std::string& name, const Arguments&... arguments) {
  std::string list;
  ((list += (list.empty() ? "" : ", ") + std::string(arguments)), ...);
  return name + "<" + list + ">";
}
const char* truth(bool value) { return value ? "true" : "false"; }

GpuSource source(const char* file, const char* text) {
  return {.file = file, .text = text, .headers = {{"lanes.cuh", kLanes}}};
}
}  // namespace

const GpuProgram& gpu::norm_program() {
  static const GpuProgram program(source("norm.cu", kNorm));
  return program;
}
const GpuProgram& gpu::rotate_program() {
  static const GpuProgram program(source("rotate.cu", kRotate));
  return program;
}
const GpuProgram& gpu::swiglu_program() {
  static const GpuProgram program(source("swiglu.cu", kSwiglu));
  return program;
}

std::string gpu::norm_forward_name(Type x, Type delta, Type out, int64_t lanes, int64_t steps, bool adds) {
  return instance("norm_forward", cuda_name(x), cuda_name(delta), cuda_name(out), number(lanes),
                  number(steps), truth(adds));
}
std::string gpu::norm_backward_name(Type x, Type delta, Type out, int64_t lanes, int64_t steps, bool adds,
                                    bool lowers) {
  return instance("norm_backward", cuda_name(x), cuda_name(delta), cuda_name(out), number(lanes),
                  number(steps), truth(adds), truth(lowers));
}
std::string gpu::sum_weight_parts_name(Type x, Type weight) {
  return instance("sum_weight_parts", x == Type::fp64 ? "double" : "float", cuda_name(weight));
}
std::string gpu::rotate_name(Type type, int64_t lanes) {
  return instance("rotate", cuda_name(type), number(lanes));
}
std::string gpu::swiglu_name(const std::string& direction, Type type, int64_t lanes) {
  return instance("swiglu_" + direction, cuda_name(type), number(lanes));
}
}  // namespace optrush::fused
