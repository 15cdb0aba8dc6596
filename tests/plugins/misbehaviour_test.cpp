// Plugins that throw, crash, hang or print, in real runs. Each gives a row with the reason.
#include <gmock/gmock.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "launch/run/result.h"
#include "optrush/spec.h"
#include "process/process.h"
#include "spec/spec_json.h"
#include "support/folders.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A run of a tiny model, started as by the controller.
class Misbehaviour : public ::testing::Test {
 protected:
  Json run(const std::vector<std::string>& plugins, double timeout_s = 100) {
    RunSpec spec;
    spec.model = {{"dim", 16}, {"n_layers", 1}, {"n_heads", 2}, {"n_kv_heads", 1}, {"ffn_dim", 16}};
    spec.train = {.micro_batch = 1, .seq_len = 8, .steps = 2, .warmup = 0};
    spec.device = "cpu";
    spec.threads = 1;
    spec.timeout_s = timeout_s;
    spec.plugin_path = {testing::build_folder() + "/tests/plugins"};
    for (const auto& plugin : plugins) spec.plugins.push_back({plugin});
    const fs::path out = folder_ / plugins.front();
    write_json(out / "spec.json", to_json(spec));
    const fs::path program = fs::path(testing::build_folder()) / "bin/optrush-worker";
    const Command worker = {
        {program, "run", "--spec", out / "spec.json", "--out", out},
        {{"ASAN_OPTIONS", "handle_segv=0"}},  // a sanitizer would handle the signal itself
        out / "log.txt"};
    Interrupts interrupts;
    const ProcessEnd end = run_process(worker, {.timeout_s = timeout_s, .grace_s = 1}, interrupts);
    return to_json(conclude(out, end, {plugins.front(), spec}));
  }

  static void expect(const Json& result, const std::string& status,
                     const ::testing::Matcher<std::string>& reason) {
    EXPECT_EQ(result["status"], status) << result.dump(2);
    EXPECT_THAT(result["reason"].get<std::string>(), reason);
  }

  TemporaryFolder folder_;
};

TEST_F(Misbehaviour, ThrowsInApply) {
  expect(run({"throws"}), "failed", HasSubstr("plugin 'throws' in apply: the fixture throws"));
}

TEST_F(Misbehaviour, ThrowsANonException) {
  expect(run({"throws_a_number"}), "failed", HasSubstr("plugin 'throws_a_number' in apply"));
}

TEST_F(Misbehaviour, ThrowsInTheConstructor) {
  expect(run({"throws_when_made"}), "failed",
         AllOf(HasSubstr("plugin 'throws_when_made'"), HasSubstr("the fixture's constructor throws")));
}

TEST_F(Misbehaviour, ThrowsInStep) {
  expect(run({"throws_in_step"}), "failed",
         AllOf(HasSubstr("plugin 'throws_in_step'"), HasSubstr("step_end"),
               HasSubstr("the fixture throws after a step")));
}

TEST_F(Misbehaviour, SkipsForMissingHardware) {
  expect(run({"skips"}), "skipped", HasSubstr("the fixture needs a machine that is not made"));
}

TEST_F(Misbehaviour, Segfaults) { expect(run({"segfault"}), "crashed", StartsWith("ended by SIGSEGV")); }

TEST_F(Misbehaviour, Hangs) { expect(run({"hang"}, 5), "timeout", StartsWith("did not end within")); }

TEST_F(Misbehaviour, WritesToStdout) {
  const Json result = run({"junk"});
  expect(result, "ok", HasSubstr(""));
  EXPECT_LT(result["tokens_per_second"], 1e9);
  EXPECT_THAT(read_file(folder_ / "junk/log.txt"), HasSubstr("\"tokens_per_second\": 1e9"));
}

TEST_F(Misbehaviour, NeedsASymbolOfAnotherTorch) {
  expect(run({"missing_symbol"}), "failed",
         AllOf(HasSubstr("plugin 'missing_symbol'"), HasSubstr("an_operator_of_another_torch"),
               HasSubstr("optrush_add_plugin()")));
}

TEST_F(Misbehaviour, TwoOwnersOfOneSlot) {
  expect(run({"second_owner", "first_owner"}), "failed",
         AllOf(HasSubstr("first_owner"), HasSubstr("second_owner"), HasSubstr("swiglu")));
}

TEST_F(Misbehaviour, UnusableFilesAreNamed) {
  expect(run({"other_api"}), "failed", HasSubstr("plugin API: plugin 999, this program 0"));
  expect(run({"other_abi"}), "failed", HasSubstr("torch: plugin 1.0.0"));
  expect(run({"no_note"}), "failed", HasSubstr("not a plugin of Optimization Rush"));
  expect(run({"absent"}), "failed", HasSubstr("no plugin 'absent'"));
}
}  // namespace
}  // namespace optrush
