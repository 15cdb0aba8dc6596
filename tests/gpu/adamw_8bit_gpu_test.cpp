// The update of 8-bit moments on a GPU equals the update on a CPU.
#include <ATen/Functions.h>

#include <deque>

#include "adamw_8bit/optimizer.h"
#include "on_gpu.h"

namespace optrush::testing {
namespace {
class AdamW8bitOnGpu : public OnGpu {};

/// More shards than one launch takes, with odd sizes, unaligned addresses and vectors.
struct Kept8bit {
  std::deque<Param> params;
  std::vector<Shard> shards;
  std::unique_ptr<Optimizer> optimizer;
  TrainSpec spec;

  /// `packed`: every address is aligned to 16 bytes, as in training.
  explicit Kept8bit(at::Device device, bool packed) {
    spec.lr = 1e-2;
    spec.weight_decay = 0.1;
    at::manual_seed(1);
    for (int64_t i = 0; i < 100; ++i) {
      const int64_t numbers = i == 0 ? 100'003 : 64 * (i + 1) + i % 3;
      const Tensor value = at::randn({numbers + 1}).to(device);
      params.push_back({.name = std::to_string(i), .shape = {numbers}, .decay = i % 2 == 0});
      if (i % 7 != 0) params.back().shape.push_back(1);
      params.back().leaf = value.narrow(0, !packed && i % 5 == 0 ? 1 : 0, numbers);
      shards.push_back({.data = params.back().leaf,
                        .grad = {},
                        .decay = params.back().decay,
                        .segments = {{&params.back(), Layout({numbers}), 0}}});
    }
    optimizer = adamw_8bit::make_optimizer(spec, shards);
  }
  /// `skip`: the step is skipped.
  void step(int64_t seed, bool skip) {
    at::manual_seed(static_cast<uint64_t>(seed));
    const auto on_device = at::TensorOptions(at::kFloat).device(shards.front().data.device());
    for (Shard& shard : shards)
      shard.grad =
          at::randn(shard.data.sizes()).to(seed % 2 == 0 ? at::kFloat : at::kBFloat16).to(on_device.device());
    optimizer->step(shards, {.lr = spec.lr,
                             .lr_tensor = at::full({}, spec.lr, on_device),
                             .skip = at::full({}, skip ? 1.0 : 0.0, on_device)});
  }
};

void expect_equal_8bit_updates(bool packed) {
  Kept8bit cpu(at::kCPU, packed), gpu(at::kCUDA, packed);
  for (int64_t step = 0; step < 6; ++step) {
    cpu.step(step, step == 3);
    gpu.step(step, step == 3);
    // A number near a border may get the adjacent code, so both devices start each step from equal moments.
    for (size_t i = 0; i < cpu.shards.size(); ++i) {
      EXPECT_TRUE(at::allclose(gpu.shards[i].data.cpu(), cpu.shards[i].data, 1e-4, 1e-5)) << i;
      const auto expected = cpu.optimizer->state(cpu.shards[i]), got = gpu.optimizer->state(gpu.shards[i]);
      ASSERT_EQ(expected.size(), got.size());
      for (size_t s = 0; s < got.size(); ++s) {
        const Tensor apart = (got[s].value.cpu().to(at::kFloat) - expected[s].value.to(at::kFloat)).abs();
        const double allowed = got[s].value.scalar_type() == at::kByte ? 1 : 1e-4;
        EXPECT_LE(apart.max().item<double>(), allowed) << i << " " << got[s].name;
        got[s].value.copy_(expected[s].value);
      }
      gpu.shards[i].data.copy_(cpu.shards[i].data);
    }
  }
}

TEST_F(AdamW8bitOnGpu, UpdateMatchesCpu) { expect_equal_8bit_updates(/*packed=*/false); }
TEST_F(AdamW8bitOnGpu, PackedUpdateMatchesCpu) { expect_equal_8bit_updates(/*packed=*/true); }
}  // namespace
}  // namespace optrush::testing
