#include "gpu/update.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "code.h"
#include "kernel_parts/gpu_instance.h"
#include "update_cu.h"

namespace optrush::adamw_8bit {
namespace {
constexpr int64_t kPieces = 48, kWarps = 8, kRounds = 4;

/// As the kernel declares them.
struct DevicePiece {
  const void* gradient;
  void* data;
  uint8_t *first, *second;
  float *first_scales, *second_scales;
  int64_t count;
  int32_t shard, first_block;
};
struct Pieces {
  DevicePiece pieces[kPieces];
  int32_t count;
};
static_assert(sizeof(Pieces) <= 3840, "the arguments of a kernel fit 4 KB");

struct DeviceCode {
  float values[256];
  Bucket buckets[kBuckets];
};
struct Tables {
  DeviceCode first, second;
};

DeviceCode on_device(const Code& code) {
  DeviceCode table{};
  std::ranges::copy(code.values, table.values);
  std::ranges::copy(code.buckets, table.buckets);
  return table;
}

bool starts_at_pack(const DevicePiece& p) {
  const auto starts = [](const void* address, uintptr_t bytes) {
    return reinterpret_cast<uintptr_t>(address) % bytes == 0;
  };
  return starts(p.gradient, 16) && starts(p.data, 16) && starts(p.first, 8) && starts(p.second, 8);
}

void update_some(std::span<const gpu::Piece> some, Types types, const gpu::State& state,
                 const gpu::Rates& rates) {
  Pieces pieces{};
  uint64_t decayed = 0;
  int64_t blocks = 0;
  bool packed = true;
  for (const auto& [numbers, shard, decays] : some) {
    auto& piece = pieces.pieces[pieces.count];
    piece = {numbers.gradient,
             numbers.data,
             numbers.first,
             numbers.second,
             numbers.first_scales,
             numbers.second_scales,
             numbers.count,
             shard,
             static_cast<int32_t>(blocks)};
    if (decays) decayed |= uint64_t{1} << pieces.count;
    blocks += (numbers.count + kWarps * kRounds * kBlock - 1) / (kWarps * kRounds * kBlock);
    packed = packed && starts_at_pack(piece);
    ++pieces.count;
  }
  gpu::program().kernel("prepare").launch({.blocks = {1, 1, 1}, .threads = {64, 1, 1}}, pieces, state.steps,
                                          state.factors, state.lr, state.skip, rates.beta1, rates.beta2,
                                          rates.weight_decay, decayed);
  if (blocks == 0) return;
  gpu::program()
      .kernel(gpu::update_name(types, packed))
      .launch({.blocks = {blocks, 1, 1}, .threads = {kWarps * 32, 1, 1}}, pieces, state.factors, state.skip,
              state.tables, static_cast<float>(rates.beta1), static_cast<float>(rates.beta2),
              static_cast<float>(rates.eps), state.steps, static_cast<uint32_t>(rates.seed));
}
}  // namespace

Tensor gpu::tables_on(at::Device device) {
  const Tables tables{on_device(signed_code()), on_device(unsigned_code())};
  Tensor bytes = at::empty({static_cast<int64_t>(sizeof(tables))}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), &tables, sizeof(tables));
  return bytes.to(device);
}

const GpuProgram& gpu::program() {
  static const GpuProgram program(fused::gpu::source("update.cu", kUpdateCu));
  return program;
}

std::string gpu::update_name(Types types, bool packed) {
  const auto name = [](NumberType type) {
    return std::string(type == NumberType::bf16 ? "__nv_bfloat16" : "float");
  };
  return "update<" + name(types.gradient) + ", " + name(types.data) + ", " + (packed ? "true" : "false") +
         ">";
}

int64_t gpu::launches_for(int64_t pieces) { return 2 * ((pieces + kPieces - 1) / kPieces); }

void gpu::update(std::span<const Piece> pieces, Types types, const State& state, const Rates& rates) {
  for (size_t begin = 0; begin < pieces.size(); begin += kPieces)
    update_some(pieces.subspan(begin, std::min<size_t>(kPieces, pieces.size() - begin)), types, state, rates);
}
}  // namespace optrush::adamw_8bit
