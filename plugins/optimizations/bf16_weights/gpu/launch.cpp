#include <algorithm>
#include <cstdint>

#include "gpu/update.h"
#include "kernel_parts/gpu_instance.h"
#include "update_cu.h"

namespace optrush::master_adamw {
namespace {
constexpr int64_t kPieces = 64, kLanes = 8, kRounds = 4, kThreads = 256;

/// As the kernel declares them.
struct DevicePiece {
  const void* gradient;
  float *master, *first, *second;
  void* weight;
  int64_t count;
  int32_t shard, first_block;
};
struct Pieces {
  DevicePiece pieces[kPieces];
  int32_t count;
};
static_assert(sizeof(Pieces) <= 3840, "the arguments of a kernel fit 4 KB");

bool starts_at_pack(const DevicePiece& p) {
  const auto starts = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; };
  return starts(p.gradient) && starts(p.master) && starts(p.first) && starts(p.second) && starts(p.weight);
}

void update_some(std::span<const gpu::Piece> some, GradientType type, const gpu::State& state,
                 const gpu::Rates& rates) {
  Pieces pieces{};
  uint64_t decayed = 0;
  int64_t blocks = 0;
  bool packed = true;
  for (const auto& [numbers, shard, decays] : some) {
    auto& piece = pieces.pieces[pieces.count];
    piece = {numbers.gradient, numbers.master, numbers.first, numbers.second,
             numbers.weight,   numbers.count,  shard,         static_cast<int32_t>(blocks)};
    if (decays) decayed |= uint64_t{1} << pieces.count;
    blocks += (numbers.count + kThreads * kLanes * kRounds - 1) / (kThreads * kLanes * kRounds);
    packed = packed && starts_at_pack(piece);
    ++pieces.count;
  }
  gpu::program().kernel("prepare").launch({.blocks = {1, 1, 1}, .threads = {kPieces, 1, 1}}, pieces,
                                          state.steps, state.factors, state.lr, state.skip, rates.beta1,
                                          rates.beta2, rates.weight_decay, decayed);
  if (blocks == 0) return;
  gpu::program()
      .kernel(gpu::update_name(type, some.front().numbers.weight != nullptr, packed))
      .launch({.blocks = {blocks, 1, 1}, .threads = {kThreads, 1, 1}}, pieces, state.factors, state.skip,
              static_cast<float>(rates.beta1), static_cast<float>(rates.beta2),
              static_cast<float>(rates.eps));
}
}  // namespace

const GpuProgram& gpu::program() {
  static const GpuProgram program(fused::gpu::source("update.cu", kUpdateCu));
  return program;
}

std::string gpu::update_name(GradientType type, bool writes_weight, bool packed) {
  const auto truth = [](bool value) { return std::string(value ? "true" : "false"); };
  return "update<" + std::string(type == GradientType::bf16 ? "__nv_bfloat16" : "float") + ", " +
         truth(writes_weight) + ", " + truth(packed) + ">";
}

int64_t gpu::launches_for(int64_t pieces) { return 2 * ((pieces + kPieces - 1) / kPieces); }

void gpu::update(std::span<const Piece> pieces, GradientType type, const State& state, const Rates& rates) {
  for (size_t begin = 0; begin < pieces.size(); begin += kPieces)
    update_some(pieces.subspan(begin, std::min<size_t>(kPieces, pieces.size() - begin)), type, state, rates);
}
}  // namespace optrush::master_adamw
