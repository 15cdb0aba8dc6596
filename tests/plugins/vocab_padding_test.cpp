// vocab_padding widens the head's product. Loss, gradients, parameters and state do not change.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"
#include "support/saved_state.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;
using Stack = std::vector<PluginUse>;
PluginUse padding(int64_t multiple) { return {"vocab_padding", {{"multiple", multiple}}}; }

RunSpec odd_vocabulary(Stack stack, bool tied = false) {
  at::set_num_threads(1);  // the runs are tiny, and the machine may be busy
  RunSpec spec = nano_spec(std::move(stack));
  spec.model["vocab_size"] = 61;
  spec.model["tie_embeddings"] = tied;
  spec.train.dtype = "fp64";
  return spec;
}

/// The widths of the matrices in the linear products for the logits.
std::vector<int64_t>& widths() {
  static std::vector<int64_t> widths;
  return widths;
}

TEST(VocabPadding, TrainsTheSameModel) {
  for (const bool tied : {false, true})
    for (const int64_t multiple : {2, 16, 64, 100}) {
      SCOPED_TRACE(std::to_string(multiple) + (tied ? " tied" : ""));
      Trained plain(odd_vocabulary({}, tied)), padded(odd_vocabulary({padding(multiple)}, tied));
      const auto expected = losses(plain.train()), got = losses(padded.train());
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-13 * expected[i]);
      const auto before = saved_state(plain.session(), 3), after = saved_state(padded.session(), 3);
      ASSERT_EQ(before.size(), after.size());
      for (const auto& [key, value] : before) {
        ASSERT_EQ(value.sizes(), after.at(key).sizes()) << key;
        EXPECT_TRUE(at::allclose(after.at(key), value, 1e-11, 1e-13)) << key;
      }
    }
}

TEST(VocabPadding, ProductIsWiderButLogitsAreNot) {
  widths().clear();
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
        if (std::string_view(fn.name()) == "aten::linear")
          widths().push_back(fn.inputs()[1].toTensor().size(0));
        return nullptr;
      })
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  Trained trained(odd_vocabulary({padding(64)}), [](Recipe& recipe) {
    recipe.ops.head_loss.wrap(Phase::measure, [](Ops::HeadLoss::Fn inner) -> Ops::HeadLoss::Fn {
      return [inner](const Tensor& x, const Batch& batch, const Ops::HeadParts& parts) {
        EXPECT_EQ(parts.logits(x).size(-1), 61);
        return inner(x, batch, parts);
      };
    });
  });
  trained.train();
  at::removeCallback(handle);
  EXPECT_THAT(widths(), ::testing::Contains(64));
  EXPECT_THAT(widths(), ::testing::Not(::testing::Contains(61)));
}

TEST(VocabPadding, WorksWithAdaptersOfTheHeadAndAutocast) {
  const auto curve = [](Stack stack, const char* dtype) {
    RunSpec spec = odd_vocabulary(std::move(stack));
    spec.train.dtype = dtype;
    return losses(Trained(spec).train());
  };
  const PluginUse lora{"lora", {{"rank", 3}, {"target_modules", {"lm_head", "q_proj"}}}};
  const PluginUse autocast{"mixed_precision", Json::object()};
  const auto expected = curve({lora}, "fp64"), got = curve({lora, padding(64)}, "fp64");
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-13 * expected[i]);
  const auto plain = curve({autocast}, "fp32"), low = curve({autocast, padding(64)}, "fp32");
  for (size_t i = 0; i < low.size(); ++i) EXPECT_NEAR(low[i], plain[i], 1e-3 * plain[i]);
}

TEST(VocabPadding, NothingToPadIsAnError) {
  EXPECT_THAT(error_of([] { Trained run(nano_spec({padding(32)})); }), HasSubstr("is a multiple of 32"));
  RunSpec norm = nano_spec({padding(32)});
  norm.model_kind = "operator";
  norm.model = validate_model("operator", {{"op", "norm"}, {"dim", 32}}, "test");
  EXPECT_THAT(error_of([&] { Trained run(norm); }), HasSubstr("this model has none"));
  EXPECT_THAT(error_of([] {
                Trained run(odd_vocabulary({padding(64), {"fused_linear_cross_entropy", Json::object()}}));
              }),
              HasSubstr("fused_linear_cross_entropy"));
  Trained noted(odd_vocabulary({padding(64)}));
  EXPECT_EQ(noted.session().log().notes().front(),
            "vocab_padding: the head computes 64 logits for a vocabulary of 61");
}
}  // namespace
}  // namespace optrush::testing
