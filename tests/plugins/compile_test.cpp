// The compile plugin, as far as the tracer: what becomes of a block, its pairs, its constants.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/cache.h"
#include "compile/unit_graph.h"
#include "model/operators.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using compile::trace_unit;
using compile::UnitGraph;

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
  UnitGraph trace(size_t layer) {
    const Unit& unit = *trained_.session().units().at(layer + 1);
    return trace_unit(Binder(trained_.session().recipe()).unit(unit), unit, x_, batch_);
  }

 private:
  Trained trained_;
  Batch batch_;
  Tensor x_;
};

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

/// y = 2 x whose backward says 5: no derivative, so that it shows which of the two a compiler kept.
const Differentiable kTwice = {
    .name = "twice",
    .forward =
        [](const Tensors& in) {
          return Differentiable::Result{{in[0] * 2}, {}};
        },
    .backward = [](const Tensors&, const Tensors& gradients) { return Tensors{gradients[0] * 5}; }};

void use_pair(Recipe& recipe) {
  recipe.ops.swiglu.replace(
      [](const Tensor& gate, const Tensor& up) { return call(kTwice, {plain::swiglu(gate, up)})[0]; },
      {.trace = Trace::pair});
}

TEST(CompileTrace, BlocksThatAreAlikeHaveOneText) {
  Blocks blocks;
  EXPECT_EQ(blocks.trace(0).text(), blocks.trace(1).text());
  EXPECT_EQ(blocks.trace(0).text(), Blocks().trace(0).text());
}

TEST(CompileTrace, WhatAPluginChangesInABlockChangesItsText) {
  const auto plain = Blocks().trace(0).text();
  EXPECT_NE(Blocks({{"flash_attention", Json::object()}}).trace(0).text(), plain);
  EXPECT_NE(Blocks({{"lora", {{"rank", 4}}}}).trace(0).text(), plain);
  EXPECT_EQ(Blocks({{"fused_adamw", Json::object()}}).trace(0).text(), plain);
}

TEST(CompileTrace, AnOpaqueBaseGivesWayToThePlainOne) {
  const auto opaque = [](Recipe& recipe) {
    recipe.ops.swiglu.replace([](const Tensor& gate, const Tensor& up) { return at::tanh(gate) * up; },
                              {.trace = Trace::opaque});
  };
  EXPECT_EQ(Blocks({}, opaque).trace(0).text(), Blocks().trace(0).text());
}

TEST(CompileTrace, APairIsOneNodeAndItsHalvesAreKept) {
  const UnitGraph graph = Blocks({}, use_pair).trace(0);
  EXPECT_EQ(count(graph.graph->toString(), "optrush::call"), 1);
  EXPECT_EQ(graph.pairs.size(), 1);
  EXPECT_EQ(graph.pairs[0].outputs, 1);
  EXPECT_EQ(graph.pairs[0].gradients, std::vector<bool>{true});
  EXPECT_NE(graph.pairs[0].backward->toString().find("value=5"), std::string::npos);
}

TEST(CompileTrace, ConstantsAreToldApartByTheirValues) {
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

TEST(CompileTrace, ARawKernelInAPairIsRefusedByName) {
  static const Differentiable raw = {
      .name = "raw", .forward = {}, .backward = {}, .traits = {.trace = Trace::opaque}};
  const auto hidden = [](Recipe& recipe) {
    recipe.ops.swiglu.replace([](const Tensor& gate, const Tensor&) { return call(raw, {gate})[0]; },
                              {.trace = Trace::aten});
  };
  try {
    Blocks({}, hidden).trace(0);
    FAIL() << "a raw kernel was traced";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("operator 'raw' can't be traced"), std::string::npos) << e.what();
  }
}

TEST(CompileRequest, CarriesTheKernelsThatAttentionMayTake) {
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
              ::testing::AllOf(::testing::HasSubstr("can't keep the slot 'norm'"),
                               ::testing::HasSubstr("keep \"attention\", \"linear\" or both")));
}

TEST(CompileTrace, CallsDifferBySizeTypeAndWhoNeedsAGradient) {
  const Tensor x = at::randn({2, 3});
  EXPECT_EQ(compile::signature_of({x}), compile::signature_of({x.clone()}));
  EXPECT_NE(compile::signature_of({x}), compile::signature_of({x.t().contiguous().t()}));
  EXPECT_NE(compile::signature_of({x}), compile::signature_of({x.to(at::kDouble)}));
  EXPECT_NE(compile::signature_of({x}), compile::signature_of({x.clone().requires_grad_()}));
}
}  // namespace
}  // namespace optrush::testing
