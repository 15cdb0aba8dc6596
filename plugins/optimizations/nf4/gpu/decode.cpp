#include <cstdint>

#include "decode.h"
#include "decode_cu.h"
#include "gpu/program.h"
#include "kernel_parts/gpu_instance.h"

namespace optrush::nf4 {
namespace {
constexpr int64_t kThreads = 256;

bool starts_at(const void* address, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}
}  // namespace

const GpuProgram& gpu::program() {
  static const GpuProgram program(fused::gpu::source("decode.cu", kDecodeCu));
  return program;
}

std::string gpu::decode_name(fused::Type type, bool packed) {
  return fused::gpu::instance("decode", type, packed);
}

void gpu::decode(const Encoded& from, fused::Type type, void* to) {
  const bool packed = starts_at(from.numbers, 4) && starts_at(to, 16);
  const int64_t lanes = 16 / size_of(type), of_block = kThreads * lanes;
  const int64_t blocks = (from.count + of_block - 1) / of_block;
  program()
      .kernel(decode_name(type, packed))
      .launch({.blocks = {blocks, 1, 1}, .threads = {kThreads, 1, 1}}, from, to);
}
}  // namespace optrush::nf4
