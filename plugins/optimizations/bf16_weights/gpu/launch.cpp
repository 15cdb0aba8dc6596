#include "gpu/update.h"
#include "kernel_parts/gpu_instance.h"
#include "update_cu.h"

namespace optrush::master_adamw {
namespace {
constexpr int64_t kPieces = 64, kLanes = 4, kRounds = 8, kThreads = 256;

bool starts_at_pack(const gpu::Piece& piece) {
  const Piece& p = piece.numbers;
  return std::ranges::all_of(
      std::initializer_list<const void*>{p.gradient, p.master, p.first, p.second, p.weight},
      [](const void* address) { return fused::gpu::starts_at(address, 16); });
}
}  // namespace

const GpuProgram& gpu::program() {
  static const GpuProgram program(fused::gpu::source("update.cu", kUpdateCu));
  return program;
}

std::string gpu::update_name(Type gradient, bool writes_weight, bool packed) {
  return fused::gpu::instance("update", gradient, writes_weight, packed);
}

int64_t gpu::launches_for(int64_t pieces) { return fused::gpu::launches_by_pieces<kPieces>(pieces); }

void gpu::update(std::span<const Piece> all, Type gradient, const State& state,
                 const fused::AdamWRates& rates) {
  fused::gpu::launch_by_pieces<kPieces>(
      program(), all, state, rates, kThreads * kLanes * kRounds,
      [&](const auto& pieces, int64_t blocks, std::span<const Piece> some) {
        const bool packed = std::ranges::all_of(some, starts_at_pack);
        program()
            .kernel(update_name(gradient, some.front().numbers.weight != nullptr, packed))
            .launch({.blocks = {blocks, 1, 1}, .threads = {kThreads, 1, 1}}, pieces, state.factors,
                    state.skip, static_cast<float>(rates.beta1), static_cast<float>(rates.beta2),
                    static_cast<float>(rates.eps));
      });
}
}  // namespace optrush::master_adamw
