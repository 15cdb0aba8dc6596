// Damaged scripts run or end in an optrush::Error, whatever the damage.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "../scripts/described_plugins.h"
#include "../support/temporary_folder.h"
#include "optrush/error.h"
#include "script/host.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;

class CountingHost final : public ScriptHost {
 public:
  fs::path run(const Experiment&) override {
    ++runs;
    return "reports/x";
  }
  void report(const fs::path&) override {}
  int runs = 0;
};

/// Random edits of `text`: bytes changed, removed, doubled, and pieces of Lua put in. No loops: they might
/// not end.
std::string damaged(std::string text, std::mt19937& random) {
  static const std::vector<std::string> kPieces = {
      "end", "{", "}", "(",    ")",     "\"",  "[[", "]]",  "nil", "..", "-1",  "1e999", "0x",  "\\",  "--[[",
      ",",   "=", "~", "\xff", "::x::", "...", "#",  "[1]", ":",   "'",  "3.5", "true",  "or ", "0/0", "\n"};
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
    const size_t at = below(text.size());
    switch (below(4)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, 1 + below(8));
        break;
      case 2:
        text.insert(at, text.substr(below(text.size()), below(24)));
        break;
      default:
        text.insert(at, kPieces[below(kPieces.size())]);
    }
  }
  return text;
}

constexpr const char* kValid = R"(local rush = require "optrush"
local exp = rush.experiment { name = "fuzz", model = rush.llama("nano", { n_layers = 3 }), train = { lr = 1e-3 },
  data = rush.text(rush.corpus "libtorch", { extensions = { ".h" } }), plugins = { "fused_adamw" }, rounds = 2 }
exp:ladder {
  rush.rung("a", "lora", { rank = 4, target_modules = { "q", "k" } }),
  rush.rung("b", { train = { steps = 3 } }),
  rush.rung("c", { plugins = { { "eight_bit", {} } }, replace = { "fused_adamw" }, without = "lora" }),
}
exp:grid { x = { rush.rung "d", rush.rung "e" }, y = { rush.rung "f" } }:ablation { rush.rung "g", rush.rung "h" }
exp:run { rounds = 3, label = "x" }:report()
)";

TEST(ScriptFuzz, DamagedScriptsRunOrEndInAnError) {
  constexpr int kTries = 1500;
  const testing::TemporaryFolder folder, plugins;
  testing::write_described_plugins(plugins.path());
  CountingHost host;
  const auto run = [&](const std::string& text) {
    std::ofstream(folder / "script.lua", std::ios::binary) << text;
    run_script(folder / "script.lua", host, {.plugin_path = {plugins.path()}});
  };
  run(kValid);
  ASSERT_EQ(host.runs, 1);
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < kTries; ++i) {
    const std::string script = damaged(kValid, random);
    try {
      run(script);
    } catch (const Error&) {
      ++refused;
    } catch (const std::exception& e) {
      FAIL() << "not an Error: " << e.what() << "\n" << script;
    }
  }
  EXPECT_GT(refused, kTries / 2) << "little was damaged: the loop shows little";
  EXPECT_GT(host.runs, 10) << "hardly a script ran: the loop stops at the parser";
}
}  // namespace
}  // namespace optrush
