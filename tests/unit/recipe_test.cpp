#include "optrush/recipe.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "optrush/host/resolve.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using Number = Slot<int(int)>;

TEST(Slot, WrapsNestByPhaseInAnyOrderOfEdits) {
  const auto multiply = [](int factor) {
    return [factor](const Number::Fn& inner, const Module&) -> Number::Fn {
      return [=](int x) { return inner(x) * factor; };
    };
  };
  const auto add = [](int term) {
    return [term](const Number::Fn& inner, const Module&) -> Number::Fn {
      return [=](int x) { return inner(x) + term; };
    };
  };
  for (const bool first : {true, false}) {
    Editor editor{"a"};
    Number slot("number", &editor, {});
    const auto adapter = [&] { slot.wrap(Phase::adapter, add(1)); };
    const auto shard = [&] { slot.wrap(Phase::shard, multiply(10)); };
    first ? adapter() : shard();
    first ? shard() : adapter();
    EXPECT_EQ(slot.resolve({}, [](int x) { return x; })(2), 30);
    EXPECT_EQ(slot.wraps().front().phase, Phase::adapter);
  }
}

TEST(Slot, WrapsOfOnePhaseNestByPluginName) {
  Editor editor{"b"};
  Number slot("number", &editor, {});
  slot.wrap(Phase::adapter, [](const Number::Fn& inner, const Module&) -> Number::Fn {
    return [=](int x) { return inner(x) * 2; };
  });
  editor.name = "a";
  slot.wrap(Phase::adapter, [](const Number::Fn& inner, const Module&) -> Number::Fn {
    return [=](int x) { return inner(x) + 1; };
  });
  EXPECT_EQ(slot.resolve({}, [](int x) { return x; })(5), 12);
}

TEST(Slot, ABaseHasOneOwner) {
  Editor editor{"flash_attention"};
  Number slot("attention", &editor, {});
  slot.replace([](int x) { return x; });
  editor.name = "ring_attention";
  const auto message = error_of([&] { slot.replace([](int x) { return -x; }); });
  EXPECT_NE(message.find("'flash_attention' and 'ring_attention' both replace the slot 'attention'"),
            std::string::npos);
  EXPECT_NE(message.find("replace = \"flash_attention\""), std::string::npos);
}

TEST(Slot, EmptyBaseOfASiteKeepsThePlainForm) {
  Editor editor{"a"};
  Number slot("number", &editor, {});
  slot.replace_each([](const Module& module) -> Number::Fn {
    if (module.path != "here") return {};
    return [](int) { return 1; };
  });
  const auto plain = [](int) { return 0; };
  EXPECT_EQ(slot.resolve({.path = "here"}, plain)(0), 1);
  EXPECT_EQ(slot.resolve({.path = "there"}, plain)(0), 0);
}

TEST(Slot, UnmetDemandNamesBothPlugins) {
  Editor editor{"context_parallel"};
  Number slot("attention", &editor, {.offers = {feature::lse}});
  slot.demand(feature::lse);
  EXPECT_NO_THROW(slot.check());
  editor.name = "flash_attention";
  slot.replace([](int x) { return x; }, {.offers = {feature::fp64}});
  const auto message = error_of([&] { slot.check(); });
  EXPECT_NE(
      message.find("plugin 'context_parallel' needs 'lse' of attention; 'flash_attention' does not offer it"),
      std::string::npos)
      << message;
  slot.replace([](int x) { return x; }, {.offers = {feature::fp64, feature::segments}});
  EXPECT_NE(error_of([&] { slot.check(); }).find("(it offers 'fp64', 'segments')"), std::string::npos);
}

TEST(Recipe, AnEditAfterApplyIsAnErrorOfItsOwner) {
  const auto message = error_of([] {
    Trained(nano_spec(), [](Recipe& recipe) {
      recipe.on(Event::meta_initialized, Phase::adapter, [&recipe](optrush::Run&) {
        recipe.ops.swiglu.wrap(Phase::adapter, [](auto inner) { return inner; });
      });
    });
  });
  EXPECT_NE(message.find("plugin 'test' in event meta_initialized"), std::string::npos) << message;
  EXPECT_NE(message.find("the slot 'swiglu' was edited after apply()"), std::string::npos) << message;
  RunRecipe recipe(nano_spec());
  recipe.seal();
  EXPECT_NE(error_of([&] { recipe.set(&TrainSpec::accumulation, int64_t{2}); }), "");
  EXPECT_NE(error_of([&] { recipe.on(Event::ready, Phase::base, [](optrush::Run&) {}); }), "");
  EXPECT_NE(error_of([&] { recipe.scope(Phase::base, [] { return Scopes::Guard(); }); }), "");
  EXPECT_NE(error_of([&] { recipe.unit.demand(feature::fp64); }), "");
}

TEST(Slot, TracerRefusesAWrapThatItCannotTrace) {
  const auto trace = [](const Traits& traits, bool wanted) {
    Editor editor{"ring"};
    Slot<Tensor(const Tensor&)> slot("linear", &editor, {});
    slot.wrap(
        Phase::tensor,
        [wanted](auto inner) -> decltype(inner) {
          if (!wanted) return inner;
          return [inner](const Tensor& x) { return inner(x) + 1; };
        },
        traits);
    const auto resolved = slot.resolve({"here", "linear"}, [](const Tensor& x) { return x * 2; });
    return error_of([&] {
      torch::jit::tracer::trace(
          {at::ones({2})},
          [&](torch::jit::Stack in) { return torch::jit::Stack{resolved(in.front().toTensor())}; },
          [](const Tensor&) { return std::string(); });
    });
  };
  const std::string refused = trace({}, true);
  torch::jit::tracer::abandon();
  EXPECT_NE(refused.find("plugin 'ring' in slot 'linear' of here cannot be compiled"), std::string::npos)
      << refused;
  EXPECT_EQ(trace({}, false), "");  // it returned the inner function
  EXPECT_EQ(trace({.trace = Trace::aten}, true), "");
}

TEST(Recipe, TwoPluginsMayNotSetAFieldToDifferentValues) {
  RunRecipe recipe(nano_spec());
  recipe.edit_as("a");
  recipe.set(&TrainSpec::accumulation, int64_t{4});
  recipe.edit_as("b");
  EXPECT_NO_THROW(recipe.set(&TrainSpec::accumulation, int64_t{4}));
  EXPECT_NE(error_of([&] { recipe.set(&TrainSpec::accumulation, int64_t{2}); }).find("'b'"),
            std::string::npos);
}

TEST(Recipe, AnExceptionInASlotCarriesPluginSlotAndSite) {
  const auto message = error_of([] {
    Trained(nano_spec(), [](Recipe& recipe) {
      recipe.ops.swiglu.replace(
          [](const Tensor&, const Tensor&) -> Tensor { throw std::runtime_error("no luck"); });
      recipe.unit.wrap(Phase::checkpoint, [](const UnitFunction& inner, const Unit&) -> UnitFunction {
        return [=](const Tensor& x, const Batch& batch) { return inner(x, batch); };
      });
    }).train();
  });
  EXPECT_EQ(message, "invalid_plugin: plugin 'test' in slot 'swiglu' of model.layers.0.mlp.act_fn: no luck");
}

TEST(Recipe, ExceptionOfThePlainFormNamesNoPlugin) {
  Trained trained(nano_spec(), [](Recipe& recipe) {
    recipe.ops.linear.wrap(Phase::adapter, [](auto inner) -> Ops::Linear::Fn {
      return [=](const Tensor& x) { return inner(x.slice(-1, 1)); };
    });
  });
  try {
    trained.train();
    FAIL() << "a matmul of unequal widths ran";
  } catch (const c10::Error& e) {
    const std::string message = e.what_without_backtrace();
    EXPECT_NE(message.find("slot 'linear' of model.layers.0.self_attn."), std::string::npos) << message;
    EXPECT_EQ(message.find("plugin"), std::string::npos) << message;
  }
}

TEST(Recipe, AnExceptionInAHandlerCarriesPluginAndEvent) {
  const auto message = error_of([] {
    Trained(nano_spec(), [](Recipe& recipe) {
      recipe.on(Event::materialized, Phase::base, [](optrush::Run&) { throw std::runtime_error("no luck"); });
    });
  });
  EXPECT_EQ(message, "invalid_plugin: plugin 'test' in event materialized: no luck");
}

TEST(Recipe, ScopesAreEnteredOutermostFirstAndLeftInReverse) {
  RunRecipe recipe(nano_spec());
  std::string trace;
  const auto scope = [&](Phase phase, char name) {
    recipe.scope(phase, [&trace, name]() -> Scopes::Guard {
      trace += name;
      return {nullptr, [&trace, name](void*) { trace += static_cast<char>(std::tolower(name)); }};
    });
  };
  scope(Phase::offload, 'O');
  scope(Phase::precision, 'P');
  { const auto entered = recipe.scopes().enter(); }
  EXPECT_EQ(trace, "POop");
}

TEST(Events, ComeInOrderOncePerStep) {
  std::string trace;
  RunSpec spec = nano_spec();
  Trained(spec, [&](Recipe& recipe) {
    for (const auto& [event, letter] :
         {std::pair(Event::meta_initialized, 'd'), std::pair(Event::materialized, 'p'),
          std::pair(Event::ready, 'r'), std::pair(Event::step_begin, 'b'), std::pair(Event::step_end, 'e')})
      recipe.on(event, Phase::measure, [&trace, letter = letter](optrush::Run&) { trace += letter; });
  }).train();
  EXPECT_EQ(trace, "dprbebebe");
}
}  // namespace
}  // namespace optrush::testing
