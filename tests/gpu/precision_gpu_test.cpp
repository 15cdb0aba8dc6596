// The update of bf16 weights and the products in fp8 on a GPU equal those on a CPU.
#include <ATen/Functions.h>

#include <deque>
#include <limits>

#include "float8/linear_function.h"
#include "fused_kernels/kernels.h"
#include "fused_kernels/pairs.h"
#include "kernel_parts/largest.h"
#include "kernel_parts/rounding.h"
#include "master_adamw.h"
#include "on_gpu.h"
#include "optrush/gpu_kernel.h"

namespace optrush::testing {
namespace {
class PrecisionOnGpu : public OnGpu {};

/// Shards of every kind on a device: more than one launch takes, with odd sizes and unaligned addresses.
struct Kept {
  std::deque<Param> params;
  std::vector<Shard> shards;
  std::unique_ptr<Optimizer> optimizer;
  TrainSpec spec;

  /// `packed`: every address is aligned to 16 bytes, as in training.
  explicit Kept(at::Device device, bool packed) {
    spec.lr = 1e-2;
    spec.weight_decay = 0.1;
    at::manual_seed(1);
    for (int64_t i = 0; i < 150; ++i) {
      const int64_t numbers = i == 0 ? 100'003 : 8 * (i + 1) + i % 3;
      const Tensor value = at::randn({numbers + 1}).to(i % 4 == 0 ? at::kFloat : at::kBFloat16).to(device);
      params.push_back({.name = std::to_string(i), .decay = i % 2 == 0});
      params.back().leaf = value.narrow(0, !packed && i % 5 == 0 ? 1 : 0, numbers);
      shards.push_back({.data = params.back().leaf,
                        .grad = {},
                        .decay = params.back().decay,
                        .segments = {{&params.back(), Layout({numbers}), 0}}});
    }
    optimizer = master_adamw::make_optimizer(spec, shards, {});
  }
  /// `skip`: the step is skipped.
  void step(int64_t seed, bool skip, bool may_skip = true) {
    at::manual_seed(static_cast<uint64_t>(seed));
    const at::Device device = shards.front().data.device();
    for (Shard& shard : shards) {
      const auto type = seed % 2 == 0 ? at::ScalarType::Float : shard.data.scalar_type();
      shard.grad = at::randn(shard.data.sizes()).to(type).to(device);
    }
    Update update{.lr = spec.lr};
    update.lr_tensor = at::full({}, spec.lr, at::TensorOptions(at::kFloat).device(device));
    if (may_skip) update.skip = at::full({}, skip ? 1.0 : 0.0, at::TensorOptions(at::kFloat).device(device));
    optimizer->step(shards, update);
  }
};

/// The noted largest value of each whole weight is that of the weight.
void expect_noted_largest(const Kept& gpu) {
  int64_t noted = 0;
  for (const Shard& shard : gpu.shards) {
    const Tensor parts = fused::noted_largest(shard.segments.front().param->leaf);
    if (!parts.defined()) continue;
    ++noted;
    EXPECT_TRUE(at::equal(parts.max(), shard.data.abs().max().to(at::kFloat)));
  }
  EXPECT_GT(noted, 100);
}

void expect_equal_updates(bool packed) {
  Kept cpu(at::kCPU, packed), gpu(at::kCUDA, packed);
  for (int64_t step = 0; step < 6; ++step) {
    cpu.step(step, step == 3);
    gpu.step(step, step == 3);
  }
  for (size_t i = 0; i < cpu.shards.size(); ++i) {
    const auto expected = cpu.optimizer->state(cpu.shards[i]), got = gpu.optimizer->state(gpu.shards[i]);
    for (size_t s = 0; s < got.size(); ++s)
      EXPECT_TRUE(
          at::allclose(got[s].value.cpu().to(at::kDouble), expected[s].value.to(at::kDouble), 1e-5, 1e-6))
          << i << " " << got[s].name;
    if (got.back().name == "master")
      EXPECT_TRUE(at::equal(gpu.shards[i].data, got.back().value.to(at::kBFloat16))) << i;
    else
      EXPECT_TRUE(at::allclose(gpu.shards[i].data.cpu(), cpu.shards[i].data, 1e-5, 1e-6)) << i;
  }
}

TEST_F(PrecisionOnGpu, UpdateNotesTheLargestWeights) {
  Kept gpu(at::kCUDA, /*packed=*/true);
  for (const bool skip : {false, true}) {  // a step that is skipped, and one that may be, note nothing
    gpu.step(1, skip, /*may_skip=*/skip);
    if (!skip) expect_noted_largest(gpu);
  }
  EXPECT_FALSE(fused::noted_largest(gpu.params[1].leaf).defined());
}

TEST_F(PrecisionOnGpu, UpdateMatchesCpu) { expect_equal_updates(/*packed=*/false); }
TEST_F(PrecisionOnGpu, PackedUpdateMatchesCpu) { expect_equal_updates(/*packed=*/true); }

bool multiplies_fp8() {
  const std::string gpu = gpu_architecture();
  return std::stoi(gpu.substr(gpu.find('_') + 1)) >= 89;
}

/// q, k and v share one quantized matrix, and one for their gradients.
TEST_F(PrecisionOnGpu, Fp8LinearsOfOneInputMatchCpu) {
  if (!multiplies_fp8()) GTEST_SKIP() << gpu_architecture() << " does not multiply fp8";
  at::manual_seed(3);
  const std::vector<int64_t> sizes = {256, 64, 64};
  Tensors numbers = {at::randn({3, 64, 512}).to(at::kBFloat16)};
  for (const int64_t size : sizes) numbers.push_back(at::randn({size, 512}));
  for (const int64_t size : sizes) numbers.push_back(at::randn({3, 64, size}).to(at::kBFloat16));
  const auto run = [&](at::Device device) {
    float8::StepWeights weights;
    const auto pair = float8::make_linear_function({}, &weights, {true, true, true});
    Tensors in, all;
    for (size_t i = 0; i < 4; ++i) in.push_back(numbers[i].to(device).detach().requires_grad_());
    Tensor sum;
    for (size_t i = 0; i < 3; ++i) {
      if (i == 0) all = call(pair, in);
      const Tensor part = (all[i] * numbers[4 + i].to(device)).sum(at::kFloat);
      sum = i == 0 ? part : sum + part;
    }
    sum.backward();
    for (const Tensor& each : in) all.push_back(each.grad());
    for (Tensor& each : all) each = each.detach().cpu();
    return all;
  };
  const Tensors expected = run(at::kCPU), got = run(at::kCUDA);
  for (size_t i = 0; i < got.size(); ++i) {
    const Tensor apart = (got[i].to(at::kDouble) - expected[i].to(at::kDouble)).norm();
    EXPECT_LT((apart / expected[i].to(at::kDouble).norm()).item<double>(), 1e-2) << i;
  }
}

TEST_F(PrecisionOnGpu, NotedLargestValueIsBitEqualToAComputedOne) {
  at::manual_seed(4);
  const Tensor x = at::randn({160, 272}, at::TensorOptions(at::kBFloat16).device(at::kCUDA));
  const Tensor noted = x.clone(), parts = fused::new_largest_parts(x);
  parts[7].copy_(x.abs().max());
  fused::note_largest(noted, parts);
  const auto found = float8::quantize_both_ways(x, at::kFloat8_e4m3fn, float8::Scaling::tensorwise),
             got = float8::quantize_both_ways(noted, at::kFloat8_e4m3fn, float8::Scaling::tensorwise);
  EXPECT_TRUE(at::equal(got.rows.values.view(at::kByte), found.rows.values.view(at::kByte)));
  EXPECT_TRUE(at::equal(got.columns.values.view(at::kByte), found.columns.values.view(at::kByte)));
  EXPECT_TRUE(at::equal(got.rows.scale, found.rows.scale));
}

at::TensorOptions on_gpu(at::ScalarType type) { return at::TensorOptions(type).device(at::kCUDA); }

/// Scales of earlier steps, which are too small for some numbers.
fused::Rounding rounding_to(at::ScalarType type) {
  const Tensor past = at::zeros({16}, on_gpu(at::kFloat));
  past[5].fill_(2);
  return {type, {past, at::zeros({fused::kLargestParts}, past.options())}, true};
}
Tensor unread() { return at::full({1}, std::numeric_limits<double>::quiet_NaN(), on_gpu(at::kBFloat16)); }

/// What a kernel wrote in 8 bits is what it writes in bf16, quantized.
void expect_quantized(const Tensors& carriers, const Tensors& plain, const fused::Rounding& offered) {
  const fused::Rounding own{offered.type, {offered.scale.past, at::zeros_like(offered.scale.seen)}, true};
  const auto expected = float8::quantize_both_ways(plain, own.type, float8::Scaling::tensorwise, own.scale);
  const auto got = fused::carried(carriers, offered);
  ASSERT_NE(got, nullptr);
  EXPECT_TRUE(at::equal(got->values.view(at::kByte), expected.rows.values.view(at::kByte)));
  EXPECT_TRUE(at::equal(got->transposed.view(at::kByte), expected.columns.values.view(at::kByte)));
  EXPECT_TRUE(at::equal(got->scale, expected.rows.scale));
  EXPECT_TRUE(at::equal(offered.scale.seen.max(), own.scale.seen.max()));
}

TEST_F(PrecisionOnGpu, GatedUnitsIn8BitsAreBitEqualToQuantizedOnes) {
  at::manual_seed(6);
  for (const auto& [rows, columns] : {std::pair(16, 16), {160, 272}, {1024, 1536}})
    for (const auto activation : {fused::Gate::silu, fused::Gate::gelu_tanh}) {
      const auto glu = activation == fused::Gate::silu ? fused::swiglu() : fused::geglu();
      const auto random = [rows, columns] { return at::randn({rows, columns}, on_gpu(at::kBFloat16)); };
      const Tensor gate = random(), up = random(), g = random();
      const Tensors plain = glu->forward({gate, up}).outputs,
                    plain_gradients = glu->backward({gate, up}, {g});
      const fused::RoundingOffer offer{rounding_to(at::kFloat8_e5m2), rounding_to(at::kFloat8_e4m3fn),
                                       unread()};
      fused::offer_rounding({gate, up}, offer);
      expect_quantized(glu->forward({gate, up}).outputs, plain, *offer.product);
      expect_quantized(glu->backward({gate, up}, {g}), plain_gradients, *offer.gradients);
    }
}

/// Widths with 32 rows a block and with 16, of a residual stream in bf16 and in fp32.
TEST_F(PrecisionOnGpu, NormsIn8BitsAreBitEqualToQuantizedOnes) {
  if (!multiplies_fp8()) GTEST_SKIP() << gpu_architecture() << " has no 8-bit types";
  at::manual_seed(7);
  for (const auto& [rows, width] : {std::pair(16, 16), {80, 272}, {1040, 2048}, {272, 4096}, {144, 8192}})
    for (const auto type : {at::kBFloat16, at::kFloat}) {
      const auto random = [rows, width](auto of) { return at::randn({rows, width}, on_gpu(of)); };
      const Tensor x = random(type), delta = random(at::kBFloat16),
                   weight = at::rand({width}, on_gpu(at::kFloat));
      const auto norm = fused::norm(1e-5, at::kBFloat16), add_norm = fused::add_norm(1e-5, at::kBFloat16);
      const auto plain = norm->forward({x, weight}), added = add_norm->forward({x, delta, weight});
      const fused::RoundingOffer offer{{}, rounding_to(at::kFloat8_e4m3fn), unread()};
      fused::offer_rounding(x, offer);
      expect_quantized({norm->forward({x, weight}).outputs[1]}, {plain.outputs[1]}, *offer.product);
      offer.product->scale.seen.zero_();
      const auto got = add_norm->forward({x, delta, weight});
      expect_quantized({got.outputs[1]}, {added.outputs[1]}, *offer.product);
      EXPECT_TRUE(at::equal(got.outputs[0], added.outputs[0]));
      EXPECT_TRUE(at::equal(got.saved[1], added.saved[1]));
    }
}

/// Output and gradients of a linear in fp8, on both devices.
void expect_equal_products(const float8::Formats& formats, int64_t length) {
  at::manual_seed(2);
  const Tensor x = at::randn({3, length, 512}).to(at::kBFloat16), w = at::randn({256, 512}),
               g = at::randn({3, length, 256}).to(at::kBFloat16);
  const auto run = [&](at::Device device) {
    float8::StepWeights weights;
    const auto pair = float8::make_linear_function(formats, &weights, {true});
    // A tensor on the same device is returned itself, so x would become a leaf.
    const Tensor in = x.to(device).detach().requires_grad_(), weight = w.to(device).detach().requires_grad_();
    const Tensor out = call(pair, {in, weight}).front();
    out.backward(g.to(device));
    return Tensors{out.detach().cpu(), in.grad().cpu(), weight.grad().cpu()};
  };
  const Tensors expected = run(at::kCPU), got = run(at::kCUDA);
  for (size_t i = 0; i < got.size(); ++i) {
    const Tensor apart = (got[i].to(at::kDouble) - expected[i].to(at::kDouble)).norm();
    // Fast accumulation keeps fewer bits.
    EXPECT_LT((apart / expected[i].to(at::kDouble).norm()).item<double>(), 1e-2) << i;
  }
}

// An expert may have any number of tokens.
TEST_F(PrecisionOnGpu, Fp8ProductsMatchCpu) {
  if (!multiplies_fp8()) GTEST_SKIP() << gpu_architecture() << " does not multiply fp8";
  for (const int64_t length : {64, 35})
    for (const auto sums : {float8::FastSums::forward, float8::FastSums::all}) {
      expect_equal_products({.fast_sums = sums}, length);
      expect_equal_products({float8::Scaling::rowwise, float8::Scaling::rowwise, at::kFloat8_e4m3fn, sums},
                            length);
    }
}

TEST_F(PrecisionOnGpu, Fp8ProductsInGroupsMatchCpu) {
  if (gpu_architecture() != "sm_90") GTEST_SKIP() << gpu_architecture() << " does not multiply fp8 in groups";
  for (const int64_t length : {128, 35})
    expect_equal_products({float8::Scaling::groupwise, float8::Scaling::blockwise, at::kFloat8_e4m3fn},
                          length);
}

TEST_F(PrecisionOnGpu, GroupsAndBlocksRoundLikeACpu) {
  at::manual_seed(5);
  const Tensor x = (at::randn({256, 640}) * at::logspace(-15, 15, 640)).to(at::kBFloat16);
  const Tensors halves = x.split({256, 384}, 1);
  Tensors on_gpu;
  for (const Tensor& half : halves) on_gpu.push_back(half.cuda());
  const auto type = at::kFloat8_e4m3fn;
  const auto equal = [](const float8::Scaled& got, const float8::Scaled& expected) {
    const bool blocks = got.scaling == float8::Scaling::blockwise;
    const auto scale = [&](const float8::Scaled& of) { return blocks ? of.scale_of_blocks() : of.scale; };
    return at::equal(got.values.view(at::kByte).cpu(), expected.values.view(at::kByte)) &&
           at::equal(scale(got).cpu(), scale(expected));
  };
  const auto groups = float8::quantize_both_ways(on_gpu, type, float8::Scaling::groupwise),
             of_groups = float8::quantize_both_ways(halves, type, float8::Scaling::groupwise);
  EXPECT_TRUE(equal(groups.rows, of_groups.rows));
  EXPECT_TRUE(equal(groups.columns, of_groups.columns));
  const auto blocks = float8::quantize(x.cuda(), type, float8::Scaling::blockwise);
  EXPECT_TRUE(equal(blocks, float8::quantize(x, type, float8::Scaling::blockwise)));
  EXPECT_TRUE(equal(float8::quantize_transposed(x.cuda(), blocks, float8::Scaling::blockwise),
                    float8::quantize(x.t(), type, float8::Scaling::blockwise)));
}
}  // namespace
}  // namespace optrush::testing
