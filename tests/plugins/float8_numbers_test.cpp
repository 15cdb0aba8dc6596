// fp8 numbers and products equal naive references.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "float8/linear_function.h"
#include "precision.h"

namespace optrush::testing {
namespace {
using float8::Scaling;

Tensor dequantized(const float8::Scaled& matrix) {
  return matrix.values.to(at::kDouble) * matrix.scale.to(at::kDouble);
}

TEST(Float8Numbers, AScaleFillsTheRangeAndRoundsOnce) {
  at::manual_seed(2);
  const Tensor x = at::randn({32, 48}) * at::logspace(-4, 4, 32).unsqueeze(1);
  for (const auto type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2})
    for (const auto scaling : {Scaling::tensorwise, Scaling::rowwise}) {
      const auto quantized = float8::quantize(x.to(at::kBFloat16), type, scaling);
      const Tensor largest = quantized.values.to(at::kFloat).abs().amax(1);
      const double limit = type == at::kFloat8_e5m2 ? 57344 : 448;
      EXPECT_LE(largest.max().item<double>(), limit);
      if (scaling == Scaling::tensorwise) {
        EXPECT_EQ(largest.max().item<double>(), limit);
        continue;
      }
      EXPECT_GE(largest.min().item<double>(), limit / 2);
      EXPECT_TRUE(at::equal(quantized.scale.log2(), quantized.scale.log2().round()));
      // Half a unit of the last place of 3 or 2 bits.
      EXPECT_LT(distance(dequantized(quantized), x), type == at::kFloat8_e5m2 ? 0.13 : 0.065);
      EXPECT_TRUE(at::equal(dequantized(float8::quantize_transposed(x, quantized, scaling)),
                            dequantized(float8::quantize(x.t(), type, scaling))));
    }
  const auto zero = float8::quantize(at::zeros({16, 16}), at::kFloat8_e4m3fn, Scaling::tensorwise);
  EXPECT_EQ(dequantized(zero).abs().max().item<double>(), 0);
}

/// The pair's output and gradients against fp64 products of the rounded numbers.
TEST(Float8Numbers, ProductsEqualThoseOfTheRoundedNumbers) {
  at::manual_seed(3);
  for (const auto& [scaling, length] : {std::pair(Scaling::tensorwise, 16), std::pair(Scaling::rowwise, 16),
                                        std::pair(Scaling::tensorwise, 1), std::pair(Scaling::rowwise, 19)}) {
    const auto type = scaling == Scaling::rowwise ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
    float8::StepWeights weights;
    const auto pair = float8::make_linear_function({scaling, scaling, type}, &weights, {true});
    const int64_t tokens = 2 * length;  // a multiple of 16, and other numbers
    const Tensor x = at::randn({2, length, 48}).to(at::kBFloat16).requires_grad_();
    const Tensor w = at::randn({64, 48}).requires_grad_();
    const Tensor out = call(pair, {x, w}).front();
    const Tensor g = at::randn({2, length, 64}).to(at::kBFloat16);
    out.backward(g);

    const auto rounded = [&, scaling = scaling](const Tensor& matrix,
                                                at::ScalarType to = at::kFloat8_e4m3fn) {
      return dequantized(float8::quantize(matrix, to, scaling));
    };
    const Tensor rows = x.detach().view({tokens, 48}), d_out = g.view({tokens, 64}), plain = w.detach();
    constexpr double kBf16 = 4e-3;
    EXPECT_LT(distance(out.view({tokens, 64}), rounded(rows).mm(rounded(plain).t())), kBf16);
    EXPECT_LT(distance(x.grad().view({tokens, 48}), rounded(d_out, type).mm(rounded(plain.t()).t())), kBf16);
    EXPECT_LT(distance(w.grad(), rounded(d_out.t(), type).mm(rounded(rows.t()).t())), kBf16);
    // Also near the product of the original numbers: one factor has 3 bits of fraction, the other 3 or 2.
    EXPECT_LT(distance(out.view({tokens, 64}), rows.to(at::kDouble).mm(plain.to(at::kDouble).t())), 0.05);
    EXPECT_LT(distance(w.grad(), d_out.to(at::kDouble).t().mm(rows.to(at::kDouble))), 0.08);
    EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
    EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  }
}

/// An expert may have no tokens.
TEST(Float8Numbers, NoTokensGiveNoOutputsAndGradientsOfZero) {
  const float8::Formats forms[] = {{},
                                   {Scaling::rowwise, Scaling::rowwise, at::kFloat8_e4m3fn},
                                   {Scaling::groupwise, Scaling::blockwise, at::kFloat8_e4m3fn}};
  for (const float8::Formats& formats : forms) {
    float8::StepWeights weights;
    const Tensor x = at::randn({0, 128}).requires_grad_(), w = at::randn({256, 128}).requires_grad_();
    const Tensor out = call(float8::make_linear_function(formats, &weights, {true}), {x, w}).front();
    EXPECT_EQ(out.sizes(), at::IntArrayRef({0, 256}));
    out.sum().backward();
    EXPECT_EQ(x.grad().sizes(), x.sizes());
    EXPECT_EQ(w.grad().abs().max().item<double>(), 0);
  }
}

/// Linears that share an input: their matrices are rounded as one matrix, their gradients as another, and the
/// gradient of x is the product of both.
TEST(Float8Numbers, LinearsOfOneInputShareOneMatrix) {
  at::manual_seed(6);
  constexpr double kBf16 = 4e-3;
  const Tensors w = {at::randn({64, 48}), 5 * at::randn({32, 48}), at::randn({32, 48})};
  const auto together = [](const Tensors& parts, int64_t axis) { return at::cat(parts, axis); };
  for (const auto scaling : {Scaling::tensorwise, Scaling::rowwise})
    for (const size_t without : {3, 1, 0}) {  // an unused output
      const Tensor x = at::randn({2, 16, 48}).to(at::kBFloat16).requires_grad_();
      Tensors in = {x}, g;
      for (const Tensor& each : w) in.push_back(each.clone().requires_grad_());
      float8::StepWeights weights;
      const auto pair =
          float8::make_linear_function({scaling, scaling, at::kFloat8_e5m2}, &weights, {true, true, true});
      const Tensors out = call(pair, in);
      Tensors read, read_g;
      for (size_t i = 0; i < 3; ++i) {
        g.push_back((i == without ? at::zeros({2, 16, w[i].size(0)}) : at::randn({2, 16, w[i].size(0)}))
                        .to(at::kBFloat16));
        if (i != without) read.push_back(out[i]), read_g.push_back(g[i]);
      }
      torch::autograd::backward(read, read_g);

      const auto rounded = [&, scaling = scaling](const Tensor& matrix, at::ScalarType to) {
        return dequantized(float8::quantize(matrix, to, scaling));
      };
      const auto e4m3 = at::kFloat8_e4m3fn, e5m2 = at::kFloat8_e5m2;
      const Tensor rows = x.detach().view({32, 48}), all_w = together(w, 0);
      const Tensor all_g = together(g, 2).view({32, 128});
      const Tensor expected = rounded(rows, e4m3).mm(rounded(all_w, e4m3).t());
      const Tensor d_w = rounded(all_g.t(), e5m2).mm(rounded(rows.t(), e4m3).t());
      int64_t first = 0;
      for (size_t i = 0; i < 3; ++i) {
        const int64_t size = w[i].size(0);
        EXPECT_LT(distance(out[i].view({32, size}), expected.narrow(1, first, size)), kBf16) << i;
        if (i == without)
          EXPECT_FALSE(in[i + 1].grad().defined());
        else
          EXPECT_LT(distance(in[i + 1].grad(), d_w.narrow(0, first, size)), kBf16) << i;
        first += size;
      }
      EXPECT_LT(distance(x.grad().view({32, 48}), rounded(all_g, e5m2).mm(rounded(all_w.t(), e4m3).t())),
                kBf16);
    }
}

/// The number of e4m3 nearest to x, ties to even, by its definition: 3 bits of fraction, exponents from -6.
double to_e4m3(double x) {
  if (x == 0) return 0;
  const double unit = std::ldexp(1, std::max(std::ilogb(x), -6) - 3);
  return std::nearbyint(x / unit) * unit;
}

/// Each block of `rows` x `columns` numbers, rounded to e4m3 times the power of two that brings the largest
/// one nearest below 448. A naive loop, in double.
Tensor in_blocks(const Tensor& matrix, int64_t rows, int64_t columns) {
  const Tensor rounded = matrix.detach().to(at::kDouble).contiguous();
  auto at = rounded.accessor<double, 2>();
  for (int64_t row = 0; row < at.size(0); row += rows)
    for (int64_t column = 0; column < at.size(1); column += columns) {
      double largest = 1e-12;
      const auto each = [&](const auto& visit) {
        for (int64_t i = row; i < std::min(row + rows, at.size(0)); ++i)
          for (int64_t j = column; j < std::min(column + columns, at.size(1)); ++j) visit(at[i][j]);
      };
      each([&](double x) { largest = std::max(largest, std::abs(x)); });
      const double factor = std::ldexp(1, std::ilogb(448 / largest));
      each([&](double& x) { x = to_e4m3(x * factor) / factor; });
    }
  return rounded;
}

/// x in groups of 128 along the sum of each product, W in blocks of 128 x 128 (arXiv:2412.19437, 3.3). 200
/// tokens are not a multiple of 128.
TEST(Float8Numbers, BlockwiseEqualsANaiveReference) {
  at::manual_seed(7);
  constexpr int64_t kTokens = 200;
  for (const size_t count : {1, 2}) {
    const Tensor x = at::randn({2, kTokens / 2, 384}) * at::logspace(-3, 3, 384);
    Tensors in = {x.to(at::kBFloat16).requires_grad_()}, g;
    for (size_t i = 0; i < count; ++i) {
      in.push_back((at::randn({256, 384}) * at::logspace(-2, 2, 384)).requires_grad_());
      g.push_back((at::randn({2, kTokens / 2, 256}) * at::logspace(-2, 2, 256)).to(at::kBFloat16));
    }
    float8::StepWeights weights;
    const float8::Formats blockwise = {Scaling::groupwise, Scaling::blockwise, at::kFloat8_e4m3fn};
    const auto pair = float8::make_linear_function(blockwise, &weights, std::vector<bool>(count, true));
    const Tensors out = call(pair, in);
    torch::autograd::backward(out, g);

    const Tensor rows = in[0].detach().view({kTokens, 384}), all_g = at::cat(g, 2).view({kTokens, -1});
    Tensor d_x = at::zeros({kTokens, 384}, at::kDouble);
    for (size_t i = 0; i < count; ++i) {
      const Tensor of_w = in_blocks(in[i + 1], 128, 128), d_out = g[i].view({kTokens, 256});
      const Tensor expected = in_blocks(rows, 1, 128).mm(of_w.t());
      const Tensor d_w = in_blocks(d_out, 128, 1).t().mm(in_blocks(rows, 128, 1));
      d_x += in_blocks(d_out, 1, 128).mm(of_w);
      // Results are rounded to bf16, and sums are in fp32.
      EXPECT_LT((out[i].view({kTokens, 256}) - expected.to(at::kBFloat16)).abs().max().item<double>(),
                expected.abs().max().item<double>() * 4e-3);
      EXPECT_LT(distance(out[i].view({kTokens, 256}), expected), 2e-3);
      EXPECT_LT(distance(in[i + 1].grad(), d_w), 2e-3);
    }
    EXPECT_LT(distance(in[0].grad().view({kTokens, 384}), d_x), 2e-3);
  }
}

/// The rounded numbers themselves, to the bit, in both layouts; groups of zeros; concatenated matrices.
TEST(Float8Numbers, GroupsAndBlocksRoundLikeANaiveReference) {
  at::manual_seed(8);
  const auto exactly = [](const float8::Scaled& got) {
    const bool blocks = got.scaling == Scaling::blockwise;
    Tensor scale = blocks ? got.scale_of_blocks().repeat_interleave(128, 0) : got.scale;
    return got.values.to(at::kDouble) * scale.repeat_interleave(128, 1).to(at::kDouble);
  };
  Tensor x = at::randn({256, 640}) * at::logspace(-20, 20, 640);
  x.slice(0, 0, 128).slice(1, 128, 256).zero_();
  const auto type = at::kFloat8_e4m3fn;
  EXPECT_TRUE(at::equal(exactly(float8::quantize(x, type, Scaling::groupwise)), in_blocks(x, 1, 128)));
  const auto blocks = float8::quantize(x, type, Scaling::blockwise);
  EXPECT_TRUE(at::equal(exactly(blocks), in_blocks(x, 128, 128)));
  EXPECT_TRUE(at::equal(exactly(float8::quantize_transposed(x, blocks, Scaling::blockwise)),
                        in_blocks(x, 128, 128).t()));
  EXPECT_TRUE(at::equal(exactly(blocks.rows(128, 128)), in_blocks(x, 128, 128).narrow(0, 128, 128)));
  const Tensors halves = x.split({256, 384}, 1);
  const auto both = float8::quantize_both_ways(halves, type, Scaling::groupwise);
  EXPECT_TRUE(at::equal(exactly(both.rows), in_blocks(x, 1, 128)));
  EXPECT_TRUE(at::equal(exactly(both.columns), in_blocks(x, 128, 1).t()));
  // The layouts that cuBLASLt reads: scales of groups column by column, rows of blocks padded to 4.
  EXPECT_EQ(both.columns.scale.strides(), at::IntArrayRef({1, 640}));
  EXPECT_EQ(blocks.scale.sizes(), at::IntArrayRef({2, 8}));
  EXPECT_EQ(blocks.scale.strides(), at::IntArrayRef({8, 1}));
}

/// The relative error of a row of each result, on average, if x and the gradient have an outlier.
TEST(Float8Numbers, BlockwiseIsMoreAccurateThanTensorwise) {
  at::manual_seed(9);
  const Tensor x = at::randn({256, 512}), w = at::randn({256, 512}), g = at::randn({256, 256});
  x[0][0] = g[5][7] = 1e6;
  const auto error = [](const Tensor& got, const Tensor& expected) {
    const Tensor apart = (got.to(at::kDouble) - expected.to(at::kDouble)).norm(2, {1});
    return (apart / expected.to(at::kDouble).norm(2, {1})).mean().item<double>();
  };
  const auto errors = [&](const float8::Formats& formats) {
    float8::StepWeights weights;
    const Tensor in = x.clone().requires_grad_(), weight = w.clone().requires_grad_();
    const Tensor out = call(float8::make_linear_function(formats, &weights, {true}), {in, weight}).front();
    out.backward(g.to(out.scalar_type()));
    return std::array{error(out.detach(), x.mm(w.t())), error(in.grad(), g.mm(w)),
                      error(weight.grad(), g.t().mm(x))};
  };
  const auto tensorwise = errors({}),
             blockwise = errors({Scaling::groupwise, Scaling::blockwise, at::kFloat8_e4m3fn});
  for (size_t i = 0; i < tensorwise.size(); ++i) {
    EXPECT_LT(blockwise[i], tensorwise[i]) << i;
    EXPECT_LT(blockwise[i], 0.06) << i;
  }
}

/// x of 20 steps, whose size changes, against a naive reference: the scale is of the largest value of up to
/// 16 steps before, and larger numbers become the largest of e4m3.
TEST(Float8Numbers, DelayedScalesEqualANaiveReference) {
  at::manual_seed(11);
  Trained trained(nano_spec());
  float8::PastScales past;
  past.make(3, trained.session());
  std::vector<double> largest;
  for (int step = 0; step < 20; ++step) {
    trained.session().begin_step(step);
    past.begin_step(trained.session());
    const Tensor x = at::randn({32, 48}) * (step == 1 ? 300 : step + 1);
    const Tensor part = x.narrow(0, 0, 16), rest = x.narrow(0, 16, 16);  // two micro-batches
    const size_t first = largest.size() > 16 ? largest.size() - 16 : 0;
    const double from =
        step == 0 ? 0 : *std::max_element(largest.begin() + static_cast<int64_t>(first), largest.end());
    for (const Tensor& each : {part, rest}) {
      const auto delayed = past.of(1);
      EXPECT_EQ(delayed.past.defined(), step > 0);
      const auto got = float8::quantize(each, at::kFloat8_e4m3fn, Scaling::tensorwise,
                                        float8::Stacking::vertical, delayed);
      const double of_scale = step == 0 ? each.abs().max().item<double>() : from;
      const auto factor = static_cast<double>(1.0F / static_cast<float>(of_scale) * 448.0F);
      const Tensor expected = each.to(at::kDouble).contiguous(), values = got.values.to(at::kDouble);
      for (int64_t i = 0; i < each.numel(); ++i) {
        const double scaled =
            static_cast<float>(expected.view({-1})[i].item<float>() * static_cast<float>(factor));
        EXPECT_EQ(values.view({-1})[i].item<double>(), std::clamp(to_e4m3(scaled), -448.0, 448.0));
      }
    }
    past.end_step(trained.session());
    largest.push_back(x.abs().max().item<double>());
  }
  EXPECT_EQ(past.largest()[1].max().item<double>(), *std::max_element(largest.end() - 16, largest.end()));
  EXPECT_EQ(past.largest()[0].max().item<double>(), 0);
}

TEST(Float8Numbers, AValueThatIsNotFiniteIsNoLargestValue) {
  Trained trained(nano_spec());
  float8::PastScales past;
  past.make(1, trained.session());
  Tensor x = at::ones({16, 16});
  x[0][0] = std::numeric_limits<double>::infinity();
  past.begin_step(trained.session());
  const auto got =
      float8::quantize(x, at::kFloat8_e5m2, Scaling::tensorwise, float8::Stacking::vertical, past.of(0));
  EXPECT_FALSE(dequantized(got).isfinite().all().item<bool>());
  past.end_step(trained.session());
  EXPECT_EQ(past.largest().max().item<double>(), 0);
}

const PluginUse kDelayed = {"float8", {{"scales", "delayed"}}};

TEST(Float8Numbers, OutlierAffectsOnlyItsRow) {
  at::manual_seed(4);
  Tensor x = at::randn({32, 64});
  x[0][0] = 1e6;
  const auto error = [&](Scaling scaling) {
    return distance(dequantized(float8::quantize(x, at::kFloat8_e4m3fn, scaling)).slice(0, 1), x.slice(0, 1));
  };
  EXPECT_LT(error(Scaling::rowwise), 0.05);
  EXPECT_GT(error(Scaling::tensorwise), 0.5);
}
}  // namespace
}  // namespace optrush::testing
