// Matrices in 4 bits: the numbers, the codec, the product, and training of adapters over them.
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "io/safetensors.h"
#include "nf4/codec.h"
#include "nf4/gpu/program.h"
#include "nf4/linear_function.h"
#include "nf4/numbers.h"
#include "optrush/differentiable.h"
#include "precision.h"
#include "support/cubin.h"
#include "support/error_of.h"
#include "support/folders.h"

namespace optrush::testing {
namespace {
using nf4::kBlock;
using nf4::kNumbers;
using nf4::kScales;
using nf4::Nf4Codec;
using ::testing::HasSubstr;

const PluginUse kLora = {"lora", {{"rank", 4}}}, kNf4 = {"nf4", Json::object()};

/// Quantiles of the normal distribution at `count` equally spaced probabilities from 0.9677083 down to above
/// 0.5.
Tensor quantiles(int64_t count) {
  const Tensor p = at::linspace(0.9677083, 0.5, count + 1, at::kDouble).narrow(0, 0, count);
  return at::erfinv(2 * p - 1) * std::sqrt(2.0);
}

TEST(Nf4, NumbersAreTheQuantilesOfANormalDistribution) {
  const Tensor all = std::get<0>(at::cat({quantiles(8), at::zeros({1}, at::kDouble), -quantiles(7)}).sort());
  const Tensor expected = all / all.max();
  for (size_t i = 0; i < kNumbers.size(); ++i)
    EXPECT_NEAR(kNumbers[i], expected[static_cast<int64_t>(i)].item<double>(), 1e-6) << i;
}

Tensor scales_of_blocks(const Tensor& value) {
  const int64_t count = value.numel();
  return at::constant_pad_nd(value.flatten(), {0, (kBlock - count % kBlock) % kBlock})
      .view({-1, kBlock})
      .abs()
      .amax(1);
}

TEST(Nf4, NumbersRoundToTheNearestCodeOfTheirBlock) {
  at::manual_seed(1);
  const Nf4Codec codec(false);
  const Tensor numbers = at::tensor(at::ArrayRef<float>(kNumbers.data(), kNumbers.size()));
  for (const int64_t count : {1, 2, 63, 64, 65, 1001}) {
    const Tensor value = at::randn({count}) * 0.02;
    const Tensor decoded = codec.decode(codec.encode(value), {count});
    const Tensor scale = scales_of_blocks(value).repeat_interleave(kBlock).narrow(0, 0, count);
    const Tensor nearest = (value.unsqueeze(1) - scale.unsqueeze(1) * numbers).abs().amin(1);
    EXPECT_TRUE(at::allclose((value - decoded).abs(), nearest, 1e-5, 1e-9)) << count;
  }
}

TEST(Nf4, BytesMatchBitsandbytes) {
  // Made by tests/parity/bitsandbytes_nf4.py.
  const SafetensorsFile file(tests_folder() + "/fixtures/nf4_bitsandbytes.safetensors");
  const Nf4Codec codec(false);
  const Tensors stored = codec.encode(file.read("value"));
  EXPECT_TRUE(at::equal(stored[0], file.read("numbers")));
  EXPECT_TRUE(at::equal(stored[1], file.read("scales")));
  EXPECT_TRUE(at::equal(codec.decode(stored, {32, 64}), file.read("decoded")));
}

TEST(Nf4, LargestNumbersAndZerosAreKept) {
  const Nf4Codec codec(false);
  Tensor value = at::zeros({3, kBlock});
  value[0][5] = -2.5;
  value[2][0] = 1e-3;
  EXPECT_TRUE(at::equal(codec.decode(codec.encode(value), value.sizes()), value));
  EXPECT_TRUE(
      at::equal(Nf4Codec(true).decode(Nf4Codec(true).encode(at::zeros({7, 9})), {7, 9}), at::zeros({7, 9})));
}

TEST(Nf4, EightBitScalesAreCloseToTheScales) {
  at::manual_seed(2);
  const Nf4Codec twice(true), once(false);
  for (const int64_t count : {1L, 64L, 5000L, kBlock * kScales, kBlock * kScales * 2 + 77}) {
    const Tensor value = at::randn({count}) * 0.02;
    const Tensors stored = twice.encode(value);
    const Tensor exact = once.decode(once.encode(value), {count}), got = twice.decode(stored, {count});
    EXPECT_LT(distance(got, value), distance(exact, value) * 1.01 + 1e-4) << count;
  }
}

TEST(Nf4, TakesAboutFourAndAnEighthBitsPerNumber) {
  const int64_t count = 4 * kBlock * kScales;
  const auto bits = [&](const Nf4Codec& codec) {
    int64_t bytes = 0;
    for (const Tensor& field : codec.encode(at::randn({count})))
      bytes += static_cast<int64_t>(field.nbytes());
    return 8.0 * static_cast<double>(bytes) / static_cast<double>(count);
  };
  EXPECT_DOUBLE_EQ(bits(Nf4Codec(false)), 4.5);
  EXPECT_DOUBLE_EQ(bits(Nf4Codec(true)), 4 + 8.0 / 64 + 64.0 / (64 * 256));
}

TEST(Nf4, KernelsAndCallsDecodeToTheSameBits) {
  at::manual_seed(3);
  for (const bool twice : {false, true})
    for (const int64_t count : {1L, 15L, 64L, 777L, kBlock * kScales + 129}) {
      const Nf4Codec codec(twice);
      const Tensors stored = codec.encode(at::randn({count}));
      // There is no kernel for double. ATen calls compute the numbers in fp32, as for a tracer.
      const Tensor by_calls = codec.decode_as(at::kDouble, stored, {count});
      EXPECT_TRUE(at::equal(codec.decode_as(at::kFloat, stored, {count}).to(at::kDouble), by_calls)) << count;
      for (const auto type : {at::kBFloat16, at::kHalf})
        EXPECT_TRUE(at::equal(codec.decode_as(type, stored, {count}), by_calls.to(at::kFloat).to(type)))
            << count;
    }
}

TEST(Nf4, ShardIsEncodedLikeTheWhole) {
  at::manual_seed(4);
  for (const bool twice : {false, true}) {
    const Nf4Codec codec(twice);
    const int64_t count = 3 * kBlock * kScales + 500, begin = kBlock * kScales;
    const Tensor value = at::randn({count});
    const Tensors whole = codec.encode(value), part = codec.encode(value.narrow(0, begin, count - begin));
    const auto fields = codec.fields();
    for (size_t i = 0; i < fields.size(); ++i) {
      const int64_t first = begin / fields[i].elements_per_entry;
      EXPECT_EQ(part[i].scalar_type(), fields[i].dtype);
      EXPECT_TRUE(at::equal(part[i], whole[i].narrow(0, first, whole[i].numel() - first))) << fields[i].name;
    }
    EXPECT_EQ(codec.block() % fields.back().elements_per_entry, 0);
  }
}

TEST(Nf4, ProductEqualsThatOfTheDecodedMatrix) {
  at::manual_seed(5);
  const auto codec = std::make_shared<const Nf4Codec>(true);
  const Tensors stored = codec->encode(at::randn({24, 40}));
  const Differentiable pair = nf4::make_linear_function(codec, {24, 40});
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const Tensor x = at::randn({2, 3, 40}, type).requires_grad_(), d_out = at::randn({2, 3, 24}, type);
    const Tensor weight = codec->decode_as(type, stored, {24, 40});
    Tensors inputs = {x};
    inputs.insert(inputs.end(), stored.begin(), stored.end());
    const Tensor out = call(pair, inputs).front();
    EXPECT_TRUE(at::equal(out, at::linear(x, weight)));
    out.backward(d_out);
    EXPECT_TRUE(at::allclose(x.grad(), at::matmul(d_out, weight)));
  }
}

Json trained(Stack stack, const std::function<void(RunSpec&)>& change = {}) {
  RunSpec spec = ten_steps(std::move(stack));
  if (change) change(spec);
  return Trained(spec).train();
}

TEST(Nf4, AdaptersTrainLikeOverUnencodedMatrices) {
  const Json wide = trained({kLora}), narrow = trained({kLora, kNf4});
  EXPECT_LT(apart(narrow, wide), kTolerance);
  EXPECT_NE(losses(narrow), losses(wide));
}

TEST(Nf4, OnlyFrozenMatricesOfTheBlocksAreEncoded) {
  Trained session(nano_spec({kLora, kNf4}));
  int64_t encoded = 0;
  for (const Param* param : session.session().params().all()) {
    const bool of_a_block = param->name.find("layers.") != std::string::npos;
    EXPECT_EQ(param->codec != nullptr, of_a_block && !param->trainable && param->shape.size() == 2)
        << param->name;
    encoded += param->codec ? 1 : 0;
  }
  EXPECT_EQ(encoded, 2 * 7);
}

TEST(Nf4, ParameterMemoryIsThatOfTheCodes) {
  const auto parameters = [](const Json& result) {
    return result["memory"]["parts"]["parameters"].get<int64_t>();
  };
  // In each block, 2 x (32 x 32 + 16 x 32) + 3 x 48 x 32 numbers lose 4 bytes each and gain the bytes of
  // their codes.
  int64_t saved = 0;
  for (const int64_t count : {1024, 512, 512, 1024, 1536, 1536, 1536})
    saved += 2 * (4 * count - count / 2 - count / kBlock - 8);
  EXPECT_EQ(parameters(trained({kLora})) - parameters(trained({kLora, kNf4})), saved);
}

TEST(Nf4, NoDecodedMatrixIsKeptForTheBackward) {
  const auto kept = [](const Json& result) {
    return result["memory"]["parts"]["activations"].get<int64_t>();
  };
  EXPECT_EQ(kept(trained({kLora, kNf4})), kept(trained({kLora})));
}

TEST(Nf4, RecomputationAndAutocastChangeOnlyRounding) {
  const Json plain = trained({kLora, kNf4});
  EXPECT_EQ(losses(trained({kLora, kNf4, checkpointing({{"policy", "full"}})})), losses(plain));
  EXPECT_LT(apart(trained({kLora, kNf4, {"mixed_precision", {{"dtype", "bf16"}}}}), plain), kTolerance);
  EXPECT_LT(apart(trained({kLora, kNf4, kBf16Weights}), plain), kTolerance);
}

TEST(Nf4, ModelsWithoutFrozenMatricesAreRefused) {
  EXPECT_THAT(error_of([] { Trained session(nano_spec({kNf4})); }),
              HasSubstr("plugin 'nf4' requires 'lora', which is not stacked"));
  EXPECT_THAT(error_of([] {
                Trained session(nano_spec({kLora, kNf4, {"float8", Json::object()}}));
              }),
              HasSubstr("plugins 'float8' and 'nf4' conflict"));
}

TEST(Nf4, GpuKernelsCompileWithoutSpillingRegisters) {
  setenv("OPTRUSH_CACHE", (build_folder() + "/tests/cache").c_str(), 1);
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"})
    for (const auto type : {fused::Type::fp32, fused::Type::bf16, fused::Type::fp16})
      for (const bool packed : {true, false}) try {
          const auto kernel = nf4::gpu::decode_name(type, packed);
          const auto compiled = compile_gpu_kernel(nf4::gpu::program().source(), kernel, architecture);
          EXPECT_EQ(resources_of(compiled.image).local_bytes, 0) << kernel << " " << architecture;
        } catch (const Error& error) {
          if (std::string(error.what()).find("was not found") != std::string::npos)
            GTEST_SKIP() << error.what();
          ADD_FAILURE() << error.what();
        }
  unsetenv("OPTRUSH_CACHE");
}
}  // namespace
}  // namespace optrush::testing
