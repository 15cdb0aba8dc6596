// The plugin that docs/plugins.md shows is this one, and it does what the page says.
#include <gtest/gtest.h>

#include "base/files.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
TEST(DocumentedPlugin, ThePageShowsTheSourceThatIsBuilt) {
  const auto source = read_file(OPTRUSH_TESTS_DIR "/plugins/documented/freeze_blocks.cpp");
  const auto page = read_file(OPTRUSH_TESTS_DIR "/../docs/plugins.md");
  EXPECT_NE(page.find("```cpp\n" + source + "```"), std::string::npos);
}

TEST(DocumentedPlugin, FreezesWhatItSays) {
  RunSpec spec = nano_spec({{"freeze_blocks", {{"blocks", 1}}}});
  spec.model["tie_embeddings"] = false;
  spec.plugin_path = {OPTRUSH_BUILD_DIR "/tests/documented"};
  Trained trained(spec);
  const Json result = trained.train();
  for (Param* param : trained.session().params().all()) {
    const bool below =
        param->name.starts_with("model.embed_tokens") || param->name.starts_with("model.layers.0.");
    EXPECT_EQ(param->trainable, !below) << param->name;
  }
  EXPECT_EQ(trained.session().notes().front(), "froze the embedding and 1 blocks");
}
}  // namespace
}  // namespace optrush::testing
