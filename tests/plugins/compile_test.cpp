// The tracer of the compile plugin: the traced block, its pairs and its constants.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/jit/runtime/graph_executor.h>

#include "compile/cache.h"
#include "compile/self_check.h"
#include "compile/unit_graph.h"
#include "model/binder.h"
#include "model/operators.h"
#include "support/attention_ring.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using compile::trace_unit;
using compile::UnitGraph;
using ::testing::AllOf;

/// Resolved blocks of the nano model, and a call of them.
class Blocks {
 public:
  explicit Blocks(std::vector<PluginUse> plugins = {}, const std::function<void(Recipe&)>& edit = {})
      : trained_(nano_spec(std::move(plugins)), edit) {
    batch_.tokens = at::arange(32).view({2, 16});
    batch_.labels = (batch_.tokens + 1);
    batch_.positions = at::arange(16).repeat({2, 1});
    trained_.session().prepare(batch_);
    x_ = at::randn({2, 16, 32}).requires_grad_();
  }
  UnitGraph trace(size_t layer) { return trace_unit(function(layer), unit(layer), x_, batch_); }
  Batch& batch() { return batch_; }
  Tensor eager(size_t layer) { return function(layer)(x_, batch_); }
  /// The result of the graph for the current batch.
  Tensor run(const UnitGraph& graph, size_t layer) {
    torch::jit::GraphExecutor executor(graph.graph, "unit");
    torch::jit::Stack stack;
    for (const Tensor& input : compile::unit_inputs(unit(layer), x_, batch_)) stack.emplace_back(input);
    executor.run(stack);
    return stack.front().toTupleRef().elements().at(0).toTensor();
  }

 private:
  const Unit& unit(size_t layer) { return *trained_.session().units().at(layer + 1); }
  UnitFunction function(size_t layer) { return Binder(trained_.session().recipe()).unit(unit(layer)); }

  Trained trained_;
  Batch batch_;
  Tensor x_;
};

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

/// y = 2 x with a backward of 5. The wrong factor shows whether a compiler kept the pair's backward.
const Differentiable kTwice = {
    {.name = "twice",
     .forward =
         [](const Tensors& in) {
           return Differentiable::Result{{in[0] * 2}, {}};
         },
     .backward = [](const Tensors&, const Tensors& gradients) { return Tensors{gradients[0] * 5}; }}};

void use_pair(Recipe& recipe) {
  recipe.ops.swiglu.replace(
      [](const Tensor& gate, const Tensor& up) { return call(kTwice, {plain::swiglu(gate, up)})[0]; },
      {.trace = Trace::pair});
}

TEST(CompileTrace, EqualBlocksHaveEqualText) {
  Blocks blocks;
  EXPECT_EQ(blocks.trace(0).text(), blocks.trace(1).text());
  EXPECT_EQ(blocks.trace(0).text(), Blocks().trace(0).text());
}

TEST(CompileTrace, PluginThatChangesABlockChangesItsText) {
  const auto plain = Blocks().trace(0).text();
  EXPECT_NE(Blocks({{"flash_attention", Json::object()}}).trace(0).text(), plain);
  EXPECT_NE(Blocks({{"lora", {{"rank", 4}}}}).trace(0).text(), plain);
  EXPECT_EQ(Blocks({{"fused_adamw", Json::object()}}).trace(0).text(), plain);
}

TEST(CompileTrace, RandomNumbersAreRefused) {
  Blocks draws({{"lora", {{"rank", 4}, {"dropout", 0.5}}}});
  EXPECT_THAT(error_of([&] { draws.trace(0); }),
              AllOf(::testing::HasSubstr("draws random numbers (aten::dropout)"),
                    ::testing::HasSubstr("dropout to 0")));
}

TEST(CompileTrace, OpaqueBaseIsReplacedByThePlainForm) {
  const auto opaque = [](Recipe& recipe) {
    recipe.ops.swiglu.replace([](const Tensor& gate, const Tensor& up) { return at::tanh(gate) * up; },
                              {.trace = Trace::opaque});
  };
  EXPECT_EQ(Blocks({}, opaque).trace(0).text(), Blocks().trace(0).text());
}

TEST(CompileTrace, PairIsOneNodeAndKeepsItsForwardAndBackward) {
  const UnitGraph graph = Blocks({}, use_pair).trace(0);
  EXPECT_EQ(count(graph.graph->toString(), "optrush::call"), 1);
  EXPECT_EQ(graph.pairs.size(), 1);
  EXPECT_EQ(graph.pairs[0].outputs, 1);
  EXPECT_EQ(graph.pairs[0].gradients, std::vector<bool>{true});
  EXPECT_NE(graph.pairs[0].backward->toString().find("value=5"), std::string::npos);
}

TEST(CompileTrace, ConstantsAreDistinguishedByTheirValues) {
  const auto shifted_by = [](double value) {
    return [value](Recipe& recipe) {
      recipe.ops.swiglu.replace(
          [shift = at::full({48}, value)](const Tensor& gate, const Tensor& up) {
            return plain::swiglu(gate, up) + shift;
          },
          {.trace = Trace::aten});
    };
  };
  EXPECT_NE(Blocks({}, shifted_by(1)).trace(0).text(), Blocks({}, shifted_by(2)).trace(0).text());
}

/// q and k scaled by tensors that a plugin put into the batch under two names.
void read_named(Recipe& recipe) {
  recipe.ops.position.replace(
      [](const Tensor& q, const Tensor& k, const Batch& batch) -> std::array<Tensor, 2> {
        return {q * batch.named.at("b"), k * batch.named.at("a").exp()};
      },
      {.trace = Trace::aten});
}

TEST(CompileTrace, NamedTensorsOfABatchAreInputs) {
  const auto random = [] { return at::rand({2, 1, 16, 1}) + 0.5; };
  Blocks blocks({}, read_named);
  const Tensor one = random();
  blocks.batch().named = {{"a", one}, {"b", one}};  // one tensor under two names
  const UnitGraph graph = blocks.trace(0);
  EXPECT_TRUE(at::allclose(blocks.run(graph, 0), blocks.eager(0)));
  const Tensor before = blocks.eager(0);
  blocks.batch().named = {{"b", random()}, {"a", random()}};
  EXPECT_TRUE(at::allclose(blocks.run(graph, 0), blocks.eager(0)));
  EXPECT_FALSE(at::allclose(before, blocks.eager(0)));
}

/// The signature of a unit without parameters.
compile::Signature signature_of_call(const Tensor& x, const Batch& batch) {
  Tensors inputs = {x};
  for (const Tensor& tensor : batch.tensors())
    if (tensor.defined()) inputs.push_back(tensor);
  return compile::signature_of(inputs, batch);
}

TEST(CompileTrace, ABatchWithOtherNamesIsCompiledAgain) {
  const Tensor x = at::randn({2, 16, 32});
  const auto signature = [&](const Batch& batch) { return signature_of_call(x, batch); };
  const Tensor value = at::zeros({2, 16}, at::kInt);
  Batch one, same, other, split, elsewhere;
  one.named = {{"a", value}, {"b", value}};
  same.named = {{"b", value + 1}, {"a", value + 2}};
  other.named = {{"a", value}, {"c", value}};
  split.named = {{"ab", value}, {"", value}};
  elsewhere.segments.ids = value;
  elsewhere.named = {{"a", value}};
  EXPECT_EQ(signature(one), signature(same));
  for (const Batch* differs : {&other, &split, &elsewhere}) EXPECT_NE(signature(one), signature(*differs));
}

TEST(CompileTrace, DocumentsOfPackedRowsAreInputs) {
  for (const bool fused : {false, true}) {
    SCOPED_TRACE(fused ? "flash_attention" : "plain");
    Blocks blocks(fused ? std::vector<PluginUse>{{"flash_attention", Json::object()}}
                        : std::vector<PluginUse>{});
    blocks.batch().segments = segments_of({9, 7, 4, 12}, 2);
    const UnitGraph graph = blocks.trace(0);
    const Tensor before = blocks.eager(0);
    EXPECT_TRUE(at::allclose(blocks.run(graph, 0), before, 1e-4, 1e-5));
    blocks.batch().segments = segments_of({3, 13, 8, 8}, 2);
    EXPECT_TRUE(at::allclose(blocks.run(graph, 0), blocks.eager(0), 1e-4, 1e-5));
    EXPECT_FALSE(at::allclose(before, blocks.eager(0), 1e-4, 1e-5));
  }
}

TEST(CompileSelfCheck, ChangesTheValuesOfEveryTensorOfABatch) {
  Batch batch;
  batch.tokens = at::arange(8).view({2, 4});
  batch.positions = at::arange(4).expand({2, 4});
  batch.segments = segments_of({1, 3, 4}, 2);
  batch.named = {{"strided", at::arange(8, at::kFloat).view({4, 2}).t()}, {"scale", at::full({}, 2.0)}};
  const Batch other = compile::other_batch(batch);
  EXPECT_EQ(signature_of_call(batch.tokens, other), signature_of_call(batch.tokens, batch))
      << "strides are part of the signature";
  for (const auto& [is, was] :
       {std::pair(other.tokens, batch.tokens), std::pair(other.segments.ids, batch.segments.ids),
        std::pair(other.named.at("strided"), batch.named.at("strided")),
        std::pair(other.named.at("scale"), batch.named.at("scale"))})
    EXPECT_FALSE(at::equal(is, was)) << is;
  EXPECT_TRUE(at::equal(other.positions, batch.positions)) << "its rows share memory";
}

TEST(CompileTrace, ARawKernelInAPairIsRefusedByName) {
  static const Differentiable raw = {
      {.name = "raw", .forward = {}, .backward = {}, .traits = {.trace = Trace::opaque}}};
  const auto hidden = [](Recipe& recipe) {
    recipe.ops.swiglu.replace([](const Tensor& gate, const Tensor&) { return call(raw, {gate})[0]; },
                              {.trace = Trace::aten});
  };
  try {
    Blocks({}, hidden).trace(0);
    FAIL() << "a raw kernel was traced";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("operator 'raw' cannot be traced"), std::string::npos) << e.what();
  }
}

TEST(CompileRequest, HasTheAllowedKernelsOfAttention) {
  using ::testing::ElementsAre;
  const UnitGraph graph = Blocks().trace(0);
  compile::Request request{.mode = "default", .activations = {}, .inputs = {at::zeros({1})}};
  request.attention = compile::enabled_attention_kernels();
  const auto of_any = compile::Cache::key_of(graph, request);
  EXPECT_THAT(request.attention, ::testing::IsSupersetOf({"flash", "efficient", "math", "cudnn"}));

  const Blocks chosen({{"flash_attention", {{"kernel", "flash"}}}});
  EXPECT_THAT(request.attention = compile::enabled_attention_kernels(), ElementsAre("flash"));
  EXPECT_NE(compile::Cache::key_of(graph, request), of_any);

  at::globalContext().setSDPUseCuDNN(true);
  at::globalContext().setSDPPriorityOrder({3, 1, 2, 0});  // cuDNN's first
  EXPECT_THAT(compile::enabled_attention_kernels(), ElementsAre("cudnn", "flash"));
}

TEST(CompileRequest, SlotsThatACompilerCantKeepAreRefused) {
  const auto keeping = [](const Json& slots) {
    return error_of([&] {
      Blocks({{"compile", Json::object()},
              {"activation_checkpointing", {{"policy", "selective"}, {"keep", slots}}}});
    });
  };
  EXPECT_EQ(keeping({"attention", "linear"}), "");
  EXPECT_THAT(keeping({"attention", "norm"}),
              ::testing::AllOf(::testing::HasSubstr("slot 'norm'"),
                               ::testing::HasSubstr("\"attention\", \"linear\" or both")));
}

TEST(CompileTrace, CallsDifferByShapeTypeAndRequiredGradients) {
  const Tensor x = at::randn({2, 3});
  EXPECT_EQ(compile::signature_of({x}), compile::signature_of({x.clone()}));
  EXPECT_NE(compile::signature_of({x}), compile::signature_of({x.t().contiguous().t()}));
  EXPECT_NE(compile::signature_of({x}), compile::signature_of({x.to(at::kDouble)}));
  EXPECT_NE(compile::signature_of({x}), compile::signature_of({x.clone().requires_grad_()}));
}
}  // namespace
}  // namespace optrush::testing
