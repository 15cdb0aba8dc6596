// The complete plugins in docs/plugins equal these files, and work as the pages say.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "support/folders.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
TEST(DocumentedPlugin, EachPageShowsTheSourceThatIsBuilt) {
  const std::map<std::string, std::string> pages = {{"freeze_blocks", "tutorial"}, {"signum", "optimizer"}};
  for (const auto& [name, file] : pages) {
    const auto page = read_file(tests_folder() + "/../docs/plugins/" + file + ".md");
    const auto source = read_file(tests_folder() + "/plugins/documented/" + name + ".cpp");
    EXPECT_NE(page.find("```cpp\n" + source + "```"), std::string::npos) << name;
  }
}

std::map<std::string, Tensor> values_of(Trained& trained) {
  std::map<std::string, Tensor> values;
  for (Param* param : trained.session().params().all()) values[param->name] = param->leaf.detach().clone();
  return values;
}

TEST(DocumentedPlugin, SignumMovesEachParameterByTheLearningRate) {
  RunSpec spec = nano_spec({{"signum", Json::object()}});
  spec.plugin_path = {build_folder() + "/tests/documented"};
  const double lr = spec.train.lr = 0.01;
  spec.train.warmup = 0;
  spec.train.steps = 1;
  spec.train.weight_decay = 0.5;
  Trained trained(spec);
  const auto before = values_of(trained);
  trained.train();
  const auto after = values_of(trained);
  for (const auto& [name, value] : before) {
    const Tensor moved = (after.at(name) - value * (value.dim() == 2 ? 1 - lr * 0.5 : 1)).abs();
    // A row of the embedding without a token in the batches is unchanged.
    EXPECT_TRUE(at::logical_or((moved - lr).abs() < 1e-6, moved < 1e-6).all().item<bool>()) << name;
    EXPECT_GT(moved.mean().item<double>(), lr / 3) << name;
  }
}

TEST(DocumentedPlugin, SignumReducesTheLoss) {
  const TemporaryFolder folder;
  std::ofstream text(folder / "text");
  for (int i = 0; i < 500; ++i) text << "the same words again, ";
  text.close();
  RunSpec spec = nano_spec({{"signum", Json::object()}});
  spec.plugin_path = {build_folder() + "/tests/documented"};
  spec.data = {.kind = "text", .path = folder / "text", .extensions = {}};
  spec.model["vocab_size"] = 256;
  spec.train.steps = 20;
  spec.train.lr = 3e-3;
  const auto curve = losses(Trained(spec).train());
  EXPECT_LT(curve.back(), 0.8 * curve.front());
}

TEST(DocumentedPlugin, FreezeBlocksFreezesTheGivenBlocks) {
  RunSpec spec = nano_spec({{"freeze_blocks", {{"blocks", 1}}}});
  spec.model["tie_embeddings"] = false;
  spec.plugin_path = {build_folder() + "/tests/documented"};
  Trained trained(spec);
  const Json result = trained.train();
  for (Param* param : trained.session().params().all()) {
    const bool below =
        param->name.starts_with("model.embed_tokens") || param->name.starts_with("model.layers.0.");
    EXPECT_EQ(param->trainable, !below) << param->name;
  }
  EXPECT_EQ(trained.session().log().notes().front(), "froze the embedding and 1 blocks");
}
}  // namespace
}  // namespace optrush::testing
