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
constexpr int64_t kPieces = 48, kWarps = 8, kRounds = 8;

struct alignas(16) DeviceCode {
  float values[256], borders[256];
  uint8_t lows[(kBuckets + 15) / 16 * 16];
};
struct Tables {
  DeviceCode first, second;
};

DeviceCode on_device(const Code& code) {
  DeviceCode table{};
  std::ranges::copy(code.values, table.values);
  for (size_t i = 0; i < code.buckets.size(); ++i) {
    const auto& [border, low] = code.buckets[i];
    table.lows[i] = static_cast<uint8_t>(low);
    table.borders[low] = border;
  }
  return table;
}

bool starts_at_pack(const gpu::Piece& piece) {
  const Piece& p = piece.numbers;
  using fused::gpu::starts_at;
  return starts_at(p.gradient, 16) && starts_at(p.data, 16) && starts_at(p.first, 8) &&
         starts_at(p.second, 8);
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
  return fused::gpu::instance("update", types.gradient, types.data, packed);
}

int64_t gpu::launches_for(int64_t pieces) { return fused::gpu::launches_by_pieces<kPieces>(pieces); }

void gpu::update(std::span<const Piece> all, Types types, const State& state, const fused::AdamWRates& rates,
                 const void* tables, uint64_t seed) {
  fused::gpu::launch_by_pieces<kPieces>(
      program(), all, state, rates, kWarps * kRounds * kBlock,
      [&](const auto& pieces, int64_t blocks, std::span<const Piece> some) {
        program()
            .kernel(update_name(types, std::ranges::all_of(some, starts_at_pack)))
            .launch({.blocks = {blocks, 1, 1}, .threads = {kWarps * 32, 1, 1}}, pieces, state.factors,
                    state.skip, tables, static_cast<float>(rates.beta1), static_cast<float>(rates.beta2),
                    static_cast<float>(rates.eps), state.steps, static_cast<uint32_t>(seed));
      });
}
}  // namespace optrush::adamw_8bit
