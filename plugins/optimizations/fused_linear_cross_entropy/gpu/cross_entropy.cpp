// Which instance of the GPU kernel fits, and its launch.
#include <algorithm>
#include <limits>

#include "cross_entropy.h"
#include "cross_entropy_cu.h"
#include "kernel_parts/gpu_instance.h"
#include "optrush/error.h"
#include "rescale_cu.h"

namespace optrush::fused {
namespace {
/// The same number as in the kernel.
constexpr int64_t kTogether = 4;
constexpr int64_t kRescaleThreads = 256, kRescaleBlocks = 1024;
}  // namespace

const GpuProgram& gpu::cross_entropy_program() {
  static const GpuProgram program(source("cross_entropy.cu", kCrossEntropyCu));
  return program;
}

std::string gpu::cross_entropy_name(Type type, int64_t lanes, bool gradient, bool capped, BlockShape shape) {
  return instance("cross_entropy", type, lanes, gradient, capped, shape.threads, shape.blocks);
}

void gpu::cross_entropy(const CrossEntropy& p) {
  if (p.rows == 0) return;
  if (p.width > std::numeric_limits<int>::max() / 2)
    throw Error("the fused loss supports a vocabulary of up to 2^30 on a GPU, not " +
                std::to_string(p.width));
  const int64_t wanted = lanes({p.type}, p.stride, {p.logits});
  const int64_t together = (p.width + wanted - 1) / wanted * wanted <= p.stride ? wanted : 1;
  const int64_t each = together * kTogether;
  const int64_t threads =
      std::clamp<int64_t>(((p.width + each - 1) / each + 31) / 32 * 32, 32, kBlockShape.threads);
  cross_entropy_program()
      .kernel(cross_entropy_name(p.type, together, p.gradient, p.soft_cap != 0))
      .launch({.blocks = {p.rows, 1, 1}, .threads = {threads, 1, 1}}, p.logits, p.labels, p.losses,
              static_cast<int>(p.width), p.stride, kIgnored, p.soft_cap, p.factor);
}

const GpuProgram& gpu::rescale_program() {
  static const GpuProgram program(source("rescale.cu", kRescaleCu));
  return program;
}

std::string gpu::rescale_name(Type type, int64_t lanes) { return instance("rescale", type, lanes); }

void gpu::rescale(const Rescale& p) {
  if (p.count == 0) return;
  const int64_t together = lanes({p.type}, p.count, {p.numbers}), each = kRescaleThreads * together;
  rescale_program()
      .kernel(rescale_name(p.type, together))
      .launch({.blocks = {std::min((p.count + each - 1) / each, kRescaleBlocks), 1, 1},
               .threads = {kRescaleThreads, 1, 1}},
              p.numbers, p.gradient, p.factor, p.count);
}
}  // namespace optrush::fused
