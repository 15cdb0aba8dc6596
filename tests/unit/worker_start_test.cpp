// Files that are read at the start of a run: each plugin's description once, and the list of data once.
#include <gtest/gtest.h>

#include "../support/folders.h"
#include "../support/opens.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "process/process.h"
#include "spec/state_files.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;

class WorkerStart : public ::testing::Test {
 protected:
  WorkerStart() {
    fs::create_directories(folder_ / "data/below");
    fs::create_directories(folder_ / "plugins");
    write_file(folder_ / "data/below/text.txt", std::string(4096, 'x'));
    for (const char* name : {"fused_adamw.so", "lora.so"})
      fs::copy_file(fs::path(testing::build_folder()) / "plugins" / name, folder_ / "plugins" / name);
  }

  /// A run of the smallest possible model for two steps.
  void run(const Json& changes = Json::object()) const {
    Json spec = {{"model",
                  {{"dim", 16},
                   {"n_layers", 1},
                   {"n_heads", 2},
                   {"n_kv_heads", 2},
                   {"ffn_dim", 32},
                   {"vocab_size", 256}}},
                 {"data", {{"kind", "text"}, {"path", (folder_ / "data").string()}}},
                 {"train", {{"micro_batch", 1}, {"seq_len", 16}, {"steps", 1}, {"warmup", 1}}},
                 {"plugin_path", {(folder_ / "plugins").string()}},
                 {"device", "cpu"},
                 {"threads", 1}};
    spec.update(changes, /*merge_objects=*/true);
    write_json(folder_ / "spec.json", spec);
    Interrupts interrupts;
    const Command command{
        .arguments = {testing::build_folder() + "/bin/optrush-worker", "run", "--spec",
                      (folder_ / "spec.json").string(), "--out", (folder_ / "out").string()},
        .log = folder_ / "log.txt"};
    const ProcessEnd end = run_process(command, {.timeout_s = 100}, interrupts);
    ASSERT_EQ(end.code, 0) << read_file(folder_ / "log.txt");
    const Json result = read_json(folder_ / "out/result.json");
    ASSERT_EQ(result.at("status"), "ok") << result.at("reason");
  }

  const TemporaryFolder folder_;
};

TEST_F(WorkerStart, ReadsADescriptionOnce) {
  testing::Opens plugins(folder_ / "plugins");
  run({{"plugins", {{{"name", "fused_adamw"}}}}});
  EXPECT_EQ(plugins.of("lora.so"), 1);
  EXPECT_EQ(plugins.of("fused_adamw.so"), 3) << "for its description, for its checksum, and to load it";
}

TEST_F(WorkerStart, ReadsNoDescriptionForARunWithoutPlugins) {
  testing::Opens plugins(folder_ / "plugins");
  run();
  EXPECT_EQ(plugins.of("lora.so"), 0);
}

TEST_F(WorkerStart, ListsItsDataOnce) {
  testing::Opens data(folder_ / "data");
  run();
  EXPECT_EQ(data.of("below"), 1);
}

TEST_F(WorkerStart, ListsItsDataTwiceForARunThatSavesItsState) {
  testing::Opens data(folder_ / "data");
  run({{"save", {{"every", 1}}}});
  EXPECT_EQ(data.of("below"), 2);
  const auto record = saved_record(folder_ / "out/state", 0);
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->at("about").at("inputs").is_string());
}
}  // namespace
}  // namespace optrush
