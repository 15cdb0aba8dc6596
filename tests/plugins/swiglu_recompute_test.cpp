// swiglu_recompute: the gradients of the formula in every stack, exact bytes, and the number of matmuls.
#include <gtest/gtest.h>

#include "data/batches.h"
#include "first_step.h"
#include "measure/memory.h"
#include "mlp_function.h"
#include "spec/spec_json.h"
#include "support/gradcheck.h"
#include "support/mlp_spec.h"

namespace optrush::testing {
namespace {
Tensors random_inputs() {
  const auto options = at::TensorOptions(at::kDouble);
  Tensors in = {at::randn({2, 5, 4}, options), at::randn({6, 4}, options), at::randn({6, 4}, options),
                at::randn({4, 6}, options)};
  for (Tensor& tensor : in) tensor.requires_grad_();
  return in;
}

Tensor swiglu_formula(const Tensors& in) {
  const Tensor gate = at::matmul(in[0], in[1].t()), up = at::matmul(in[0], in[2].t());
  return at::matmul(gate / (1 + (-gate).exp()) * up, in[3].t());
}

TEST(SwigluRecompute, GradientsOfPairsMatchTheFormula) {
  for (const auto& [keep, chunk] : {std::pair{Keep::everything, 0},
                                    {Keep::input, 0},
                                    {Keep::input, 1},
                                    {Keep::input, 3},
                                    {Keep::input, 10},
                                    {Keep::input, 64}}) {
    SCOPED_TRACE(chunk);
    const Differentiable op = make_mlp_function(keep, chunk, {});
    const Tensors in = random_inputs();
    EXPECT_TRUE(at::allclose(call(op, in).at(0), swiglu_formula(in), 1e-12, 1e-12));
    gradcheck([&](const Tensors& inputs) { return call(op, inputs); }, in);
  }
  const Differentiable swiglu = make_swiglu_function();
  const Tensors in = random_inputs();
  gradcheck([&](const Tensors& inputs) { return call(swiglu, inputs); }, {in[1], in[2]});
}

TEST(SwigluRecompute, FrozenMatricesGetNoGradient) {
  const Differentiable op = make_mlp_function(Keep::input, 3, {.gate = false, .down = false});
  const Tensors in = random_inputs();
  call(op, in).at(0).sum().backward();
  EXPECT_FALSE(in[1].grad().defined());
  EXPECT_TRUE(in[2].grad().defined());
  EXPECT_FALSE(in[3].grad().defined());
}

PluginUse level(int64_t level, int64_t chunk = 0) {
  return {"swiglu_recompute", {{"level", level}, {"chunk", chunk}}};
}

void expect_same_first_step(RunSpec spec, const std::vector<PluginUse>& stack, const PluginUse& use,
                            double tolerance) {
  spec.plugins = stack;
  const auto expected = first_step(spec);
  spec.plugins.push_back(use);
  for (const auto& [name, value] : first_step(spec)) {
    ASSERT_TRUE(value.defined()) << name;
    const Tensor& plain = expected.at(name);
    EXPECT_LE((value - plain).abs().max().item<double>(),
              tolerance * std::max(1e-30, plain.abs().max().item<double>()))
        << name;
  }
}

const PluginUse kLoraOfMlp = {"lora",
                              {{"rank", 4}, {"target_modules", {"gate_proj", "up_proj", "down_proj"}}}};

TEST(SwigluRecompute, GradientsEqualThePlainFormInEveryStack) {
  for (RunSpec spec : {nano_spec(), mlp_spec()}) {
    spec.train.dtype = "fp64";
    for (const auto& stack :
         std::vector<std::vector<PluginUse>>{{},
                                             {kLoraOfMlp},
                                             {kCheckpointing},
                                             {kLoraOfMlp, kCheckpointing},
                                             {{"lora", {{"rank", 2}, {"target_modules", {"up_proj"}}}}}})
      for (const auto& use : {level(0), level(1), level(1, 7)}) {
        SCOPED_TRACE(spec.model_kind + ", " + std::to_string(stack.size()) + " others, " +
                     use.options.dump());
        expect_same_first_step(spec, stack, use, 1e-12);
      }
  }
}

/// B is zero at first, so the test trains LoRA for some steps instead of comparing the first gradient.
TEST(SwigluRecompute, TrainsTheSameInDouble) {
  RunSpec spec = mlp_spec({kLoraOfMlp});
  spec.train.dtype = "fp64";
  spec.train.steps = 4;
  const auto expected = losses(Trained(spec).train());
  spec.plugins.push_back(level(1));
  const auto got = losses(Trained(spec).train());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
}

TEST(SwigluRecompute, MixedPrecisionMatchesThePlainForm) {
  const PluginUse bf16 = {"mixed_precision", {{"dtype", "bf16"}}};
  for (const auto& stack :
       std::vector<std::vector<PluginUse>>{{bf16}, {bf16, kLoraOfMlp}, {bf16, kLoraOfMlp, kCheckpointing}})
    for (const auto& use : {level(0), level(1), level(1, 7)}) {
      SCOPED_TRACE(std::to_string(stack.size()) + use.options.dump());
      expect_same_first_step(mlp_spec(), stack, use, 3e-2);
    }
}

struct Shape {
  int64_t layers, batch, length, dim, ffn;
  int64_t tokens() const { return batch * length; }
  int64_t hidden_bytes() const { return tokens() * ffn * 4; }
  int64_t input_bytes() const { return tokens() * dim * 4; }
};
const std::vector<Shape> kMlpShapes = {{2, 4, 16, 32, 128}, {3, 2, 64, 48, 96}, {5, 3, 20, 16, 144}};

RunSpec mlp_of(const Shape& shape, std::vector<PluginUse> stack) {
  RunSpec spec = mlp_spec(std::move(stack));
  spec.model = validate_model(
      "operator", {{"op", "mlp"}, {"dim", shape.dim}, {"ffn_dim", shape.ffn}, {"repeat", shape.layers}},
      "test");
  spec.train.micro_batch = shape.batch;
  spec.train.seq_len = shape.length;
  return spec;
}

TEST(SwigluRecompute, Level1KeepsItsInputOnlyAndLevel0ThreeTensorsMore) {
  const auto activations = [](const Shape& shape, const PluginUse& use) {
    return Trained(mlp_of(shape, {use})).train()["memory"]["parts"]["activations"].get<int64_t>();
  };
  for (const Shape& shape : kMlpShapes) {
    // The input of each layer, and the output of the last for the loss.
    EXPECT_EQ(activations(shape, level(1)), (shape.layers + 1) * shape.input_bytes());
    EXPECT_EQ(activations(shape, level(0)),
              (shape.layers + 1) * shape.input_bytes() + shape.layers * 3 * shape.hidden_bytes());
  }
}

/// The peak of the forward and the backward of a micro-batch. In the second one, gradients exist already.
int64_t peak_of(const RunSpec& spec, int64_t micro_batch = 1) {
  install_cpu_memory_tracking();
  Trained trained(spec);
  Session& session = trained.session();
  const Batches batches(spec, session.model(), session.mesh(), at::kCPU);
  int64_t peak = 0;
  for (int64_t step = 0; step <= micro_batch; ++step) {
    const Batch batch = batches.step(step).at(0);
    const int64_t before = cpu_allocated();
    reset_memory_peak(at::kCPU);
    session.forward(0, batch, {}).backward();
    peak = memory_peak(at::kCPU).allocated - before;
  }
  return peak;
}

TEST(SwigluRecompute, PeaksDifferByThreeTensorsOfEveryLayerButOne) {
  for (const Shape& shape : kMlpShapes)
    EXPECT_EQ(peak_of(mlp_of(shape, {level(0)})) - peak_of(mlp_of(shape, {level(1)})),
              (shape.layers - 1) * 3 * shape.hidden_bytes());
}

/// Level 0 peaks at the last layer. Level 1 peaks at the first, when the gradients of all others exist.
TEST(SwigluRecompute, GrowingGradientsReduceTheDifferenceOfPeaks) {
  for (const Shape& shape : kMlpShapes)
    EXPECT_EQ(peak_of(mlp_of(shape, {level(0)}), 0) - peak_of(mlp_of(shape, {level(1)}), 0),
              (shape.layers - 1) *
                  (3 * shape.hidden_bytes() + shape.input_bytes() - 3 * shape.dim * shape.ffn * 4));
}

/// In chunks, the whole hidden activations never exist. Six tensors of one chunk exist at a time, and the
/// rows of the gradient of x before they are joined.
TEST(SwigluRecompute, OnlyOneChunkIsRecomputedAtOnce) {
  const Shape& shape = kMlpShapes[0];
  const int64_t whole = peak_of(mlp_of(shape, {level(1)})), chunks = 8;
  const int64_t chunked = peak_of(mlp_of(shape, {level(1, shape.tokens() / chunks)}));
  EXPECT_LT(chunked,
            whole - 5 * (shape.hidden_bytes() - shape.hidden_bytes() / chunks) + shape.input_bytes());
}

TEST(SwigluRecompute, Level1RepeatsGateAndUpButNotDown) {
  const Shape& shape = kMlpShapes[1];
  const auto hfu = [&](std::vector<PluginUse> stack) {
    return Trained(mlp_of(shape, std::move(stack))).train()["flops_per_token"]["hfu"].get<double>();
  };
  const auto matmul = static_cast<double>(2 * shape.dim * shape.ffn * shape.layers);
  EXPECT_DOUBLE_EQ(hfu({level(0)}), hfu({}));
  EXPECT_DOUBLE_EQ(hfu({level(1)}) - hfu({}), 2 * matmul);
  EXPECT_DOUBLE_EQ(hfu({level(1, 7)}) - hfu({}), 2 * matmul);
  // The products with A and B of gate and up are recomputed as well.
  const auto updates = static_cast<double>(2 * 4 * (shape.dim + shape.ffn) * shape.layers);
  EXPECT_DOUBLE_EQ(hfu({kLoraOfMlp, level(0)}), hfu({kLoraOfMlp}));
  EXPECT_DOUBLE_EQ(hfu({kLoraOfMlp, level(1)}) - hfu({kLoraOfMlp}), 2 * matmul + 2 * updates);
}

TEST(SwigluRecompute, OptionsThatWouldBeIgnoredAreErrors) {
  EXPECT_THROW(Trained(mlp_spec({level(0, 64)})), Error);
  EXPECT_THROW(Trained(mlp_spec({level(2)})), Error);
}
}  // namespace
}  // namespace optrush::testing
