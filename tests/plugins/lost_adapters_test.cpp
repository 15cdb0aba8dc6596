// A base that multiplies with a linear's matrix, stacked with an adapter on that linear. The stack is refused
// only if the base would ignore the adapter.
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "support/error_of.h"
#include "support/folders.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

PluginUse lora(std::vector<std::string> targets) {
  return {"lora", {{"target_modules", std::move(targets)}}};
}

RunSpec with_the_fixture(std::vector<PluginUse> plugins) {
  RunSpec spec = nano_spec(std::move(plugins));
  spec.plugins.push_back({"reads_the_head", Json::object()});
  spec.plugin_path.emplace_back(build_folder() + "/tests/adapted");
  return spec;
}

TEST(LostAdapters, HeadLossThatIgnoresAdaptersIsRefused) {
  EXPECT_THAT(error_of([] {
                Trained(with_the_fixture({lora({"q_proj", "lm_head"})}));
              }),
              AllOf(HasSubstr("plugin 'reads_the_head' replaces head_loss and would ignore "
                              "'lm_head.lora_A.weight', which plugin 'lora' added to lm_head"),
                    HasSubstr("remove 'lm_head' from the adapter's targets")));
}

TEST(LostAdapters, AdaptersOfOtherLinearsAreKept) {
  const RunSpec spec = with_the_fixture({lora({"q_proj", "down_proj"})});
  const auto got = losses(Trained(spec).train());
  const auto plain = losses(Trained(nano_spec({lora({"q_proj", "down_proj"})})).train());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(got[i], plain[i], 1e-5 * plain[i]);
}

/// An MLP that calls its parts. `offers` declares whether it keeps edits of the parts.
std::function<void(Recipe&)> mlp_of_parts(std::vector<Feature> offers) {
  return [offers = std::move(offers)](Recipe& recipe) {
    recipe.ops.mlp.replace(
        [](const Tensor& x, const Ops::MlpParts& parts) {
          return parts.down(parts.glu(parts.gate(x), parts.up(x)));
        },
        {.trace = Trace::aten, .offers = offers});
  };
}

TEST(LostAdapters, BaseThatDeclaresAdaptersIsAccepted) {
  const RunSpec spec = nano_spec({lora({"up_proj"})});
  EXPECT_EQ(losses(Trained(spec, mlp_of_parts({feature::adapters})).train()), losses(Trained(spec).train()));
  EXPECT_THAT(
      error_of([&] { Trained(spec, mlp_of_parts({})); }),
      HasSubstr("plugin 'test' replaces mlp and would ignore 'model.layers.0.mlp.up_proj.lora_A.weight'"));
  EXPECT_EQ(error_of([] { Trained(nano_spec({lora({"o_proj"})}), mlp_of_parts({})); }), "");
}
/// The plain loss plus PaLM's term: the mean square of the log of the softmax's denominator
/// (arXiv:2204.02311).
std::function<void(Recipe&)> z_loss(double weight) {
  return [weight](Recipe& recipe) {
    recipe.ops.head_loss.replace(
        [weight](const Tensor& x, const Batch& batch, const Ops::HeadParts& parts) {
          const Tensor logits = parts.logits(x).flatten(0, 1);
          return at::cross_entropy_loss(logits, batch.labels.flatten(), {}, at::Reduction::Sum) +
                 weight * at::logsumexp(logits, 1).square().sum();
        },
        {.trace = Trace::aten, .offers = {feature::adapters}});
  };
}

TEST(LostAdapters, HeadLossMadeOfPartsTrainsTheAdapterOfTheHead) {
  const RunSpec spec = nano_spec({lora({"lm_head"})});
  const auto plain = losses(Trained(spec).train());
  const auto with_nothing_added = losses(Trained(spec, z_loss(0)).train());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(with_nothing_added[i], plain[i], 1e-5 * plain[i]);
  EXPECT_LT(plain.back(), plain.front());  // only the adapter can make the loss fall
  EXPECT_GT(losses(Trained(spec, z_loss(1e-2)).train()).front(), plain.front() * 1.001);
}
}  // namespace
}  // namespace optrush::testing
