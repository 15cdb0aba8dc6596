// Launches of the GPU kernels: which instance of a template fits the types, the width and the alignment.
#include <algorithm>
#include <string>
#include <type_traits>

#include "gpu/programs.h"
#include "kernel_parts/compute_capability.h"
#include "kernel_parts/gpu_instance.h"
#include "kernels.h"

namespace optrush::fused {
namespace {
/// Has the same layout as in the kernel.
struct RotateHeads {
  const void* in;
  void* out;
  long long heads, in_batch, in_head, in_token, out_batch, out_head, out_token;
};
RotateHeads heads(const Heads& h) {
  return {h.in, h.out, h.heads, h.in_batch, h.in_head, h.in_token, h.out_batch, h.out_head, h.out_token};
}

gpu::RowShape shape_of(const NormBackward& p) {
  return gpu::row_shape(
      gpu::lanes({p.x_type, p.delta_type, p.out_type}, p.width,
                 {p.s, p.weight, p.out_gradient, p.sum_gradient, p.gradient, p.delta_gradient}),
      p.width);
}
const GpuKernel& backward_kernel(const NormBackward& p, const gpu::RowShape& shape) {
  return gpu::norm_program().kernel(gpu::norm_backward_name(
      p.x_type, p.delta_type, p.out_type, shape, p.sum_gradient != nullptr, p.delta_gradient != nullptr));
}
}  // namespace

void gpu::norm_forward(const NormForward& p) {
  if (p.rows == 0) return;
  const RowShape shape = row_shape(
      lanes({p.x_type, p.delta_type, p.out_type}, p.width, {p.x, p.delta, p.weight, p.sum, p.out}), p.width);
  const auto name = norm_forward_name(p.x_type, p.delta_type, p.out_type, shape, p.delta != nullptr);
  norm_program().kernel(name).launch({.blocks = {p.rows, 1, 1}, .threads = {shape.threads, 1, 1}}, p.x,
                                     p.delta, p.weight, p.sum, p.out, p.rstd, p.width, p.eps, p.largest);
}

namespace {
/// As of the norm that writes bf16, to which a result is rounded first: the bits are the same.
int64_t lanes_in_8_bits(const NormForward& p) {
  return gpu::lanes({p.x_type, p.delta_type, Type::bf16}, p.width, {p.x, p.delta, p.weight, p.sum});
}

/// The rows of a block, and their bytes in shared memory: see gpu/rounded_norm.cu.
struct RowsIn8Bits {
  int64_t rows, bytes;
  explicit RowsIn8Bits(int64_t width) : rows(32), bytes(rows * (width + 4)) {
    // Three such blocks of 32 rows, which fill the sectors of the transpose, or of 16 rows share a
    // multiprocessor.
    constexpr int64_t kThird = 74 << 10;
    if (bytes <= kThird) return;
    rows = 16;
    bytes = rows * (width + 4);
  }
  /// In what a block may ask for, besides 1 KiB for the other memory of the kernel.
  bool fit() const {
    const int capability = compute_capability(), major = capability / 10;
    return bytes <= ((major == 9 || major == 10 ? 226 : 98) << 10);
  }
};
}  // namespace

bool gpu::rounds(const NormForward& p) {
  constexpr int64_t kLanesOfAWord = 4;
  return lanes_in_8_bits(p) % kLanesOfAWord == 0 && RowsIn8Bits(p.width).fit();
}

void gpu::rounded_norm(const NormForward& p, const RoundedMatrix& to) {
  const RowShape shape = row_shape(lanes_in_8_bits(p), p.width);
  const RowsIn8Bits in_block(p.width);
  const bool turns = to.transposed != nullptr;
  rounded_norm_program()
      .kernel(rounded_norm_name(p.x_type, p.delta_type, shape, p.delta != nullptr, in_block.rows, turns))
      .launch({.blocks = {(to.rows + in_block.rows - 1) / in_block.rows, 1, 1},
               .threads = {shape.threads, 1, 1},
               .shared = turns ? in_block.bytes : 0},
              p.x, p.delta, p.weight, p.sum, p.rstd, p.eps, to);
}

int64_t gpu::norm_backward_blocks(const NormBackward& p) {
  if (p.rows == 0) return 1;
  const RowShape shape = shape_of(p);
  return std::min(p.rows, backward_kernel(p, shape).resident_blocks(shape.threads));
}

void gpu::norm_backward(const NormBackward& p, void* weight_parts, int64_t blocks, void* weight_gradient,
                        Type weight_type) {
  if (p.width == 0) return;
  const RowShape shape = shape_of(p);
  // Without rows the blocks still write their zeros.
  backward_kernel(p, shape).launch({.blocks = {blocks, 1, 1}, .threads = {shape.threads, 1, 1}}, p.s, p.rstd,
                                   p.weight, p.out_gradient, p.sum_gradient, p.gradient, p.delta_gradient,
                                   weight_parts, p.rows, p.width, p.largest);
  norm_program()
      .kernel(sum_weight_parts_name(p.x_type, weight_type))
      .launch({.blocks = {(p.width + kPartColumns - 1) / kPartColumns, 1, 1},
               .threads = {kPartColumns, kPartLines, 1}},
              weight_parts, weight_gradient, blocks, p.width);
}

void gpu::rotate(const Rotate& p) {
  const int64_t all_heads = p.parts[0].heads + p.parts[1].heads, half = p.width / 2;
  if (p.batch * p.tokens * all_heads * half == 0) return;
  int64_t together = lanes({p.type}, half, {p.parts[0].in, p.parts[1].in, p.cos, p.sin});
  for (const Heads& part : p.parts)
    for (const int64_t stride : {part.in_batch, part.in_head, part.in_token})
      if (stride % together != 0) together = 1;
  const int64_t items = all_heads * half / together;
  rotate_program()
      .kernel(rotate_name(p.type, together))
      .launch({.blocks = {p.batch * p.tokens, 1, 1},
               .threads = {std::min<int64_t>(512, (items + 31) / 32 * 32), 1, 1}},
              heads(p.parts[0]), heads(p.parts[1]), p.cos, p.sin, p.table_batch, p.table_token, p.tokens,
              p.width, static_cast<int>(p.back));
}

namespace {
constexpr int64_t kThreads = 256;
GpuGrid over(int64_t count, int64_t together) {
  return {.blocks = {(count / together + kThreads - 1) / kThreads, 1, 1}, .threads = {kThreads, 1, 1}};
}
}  // namespace

void gpu::glu_forward(const GluForward& p) {
  if (p.count == 0) return;
  const int64_t together = lanes({p.type}, p.count, {p.gate, p.up, p.out});
  glu_program()
      .kernel(glu_name("forward", p.type, together, p.activation))
      .launch(over(p.count, together), p.gate, p.up, p.out, p.count, p.largest);
}

void gpu::glu_backward(const GluBackward& p) {
  if (p.count == 0) return;
  int64_t together = lanes({p.type}, p.width, {p.gate, p.up, p.out_gradient, p.gate_gradient, p.up_gradient});
  if (p.stride % together != 0) together = 1;
  glu_program()
      .kernel(glu_name("backward", p.type, together, p.activation))
      .launch(over(p.count, together), p.gate, p.up, p.out_gradient, p.gate_gradient, p.up_gradient, p.count,
              p.width, p.stride, p.largest);
}

void gpu::rounded_glu(const RoundedGlu& p) {
  const bool forward = p.out_gradient == nullptr;
  const int64_t tile_rows = forward ? 128 : 64,
                tile_columns = 128;  // as in rounded_glu.cu and turned_tile.cuh
  const int64_t down = (p.to.rows + tile_rows - 1) / tile_rows;
  const int64_t across = (p.to.columns + tile_columns - 1) / tile_columns;
  const int64_t together = lanes({p.type}, p.to.columns, {p.gate, p.up, p.out_gradient});
  const auto& kernel =
      rounded_glu_program().kernel(rounded_glu_name(forward ? "forward" : "backward", p.type, together,
                                                    p.activation, p.mantissa, p.to.transposed != nullptr));
  const GpuGrid grid{.blocks = {down * across, 1, 1}, .threads = {kThreads, 1, 1}};
  if (forward)
    kernel.launch(grid, p.gate, p.up, p.to);
  else
    kernel.launch(grid, p.gate, p.up, p.out_gradient, p.to);
}
}  // namespace optrush::fused
