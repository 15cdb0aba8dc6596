// Cases that golden scripts cannot cover: hosts that throw, links, damaged files, and files that are
// generated from the binding table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "../scripts/described_plugins.h"
#include "../support/error_of.h"
#include "authoring/stubs.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "script/api.h"
#include "script/host.h"
#include "script_reference.h"
#include "support/folders.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::is_error;
using ::testing::Not;
const fs::path kRoot = fs::path(testing::tests_folder()).parent_path();

/// A host that keeps the experiments.
class KeepingHost final : public ScriptHost {
 public:
  fs::path run(const Experiment& experiment) override {
    experiments.push_back(experiment);
    return "reports/x";
  }
  void report(const fs::path&) override {}
  std::vector<Experiment> experiments;
};

class Script : public ::testing::Test {
 protected:
  Script() { testing::write_described_plugins(plugins_.path()); }

  void run(const std::string& text, ScriptHost& host) { run_file(write("main.lua", text), host); }
  void run_file(const fs::path& script, ScriptHost& host) {
    run_script(script, host, {.plugin_path = {plugins_.path()}, .library = kRoot / "scripts"});
  }
  std::string error(const std::string& text) {
    KeepingHost host;
    return error_of([&] { run(text, host); });
  }
  fs::path write(const std::string& name, const std::string& text) {
    write_file(folder_ / name, text);
    return folder_ / name;
  }

  TemporaryFolder folder_, plugins_;
};

const std::string kValid = R"(local rush = require "optrush"
rush.experiment { name = "x", model = rush.llama "nano" }:run()
)";

TEST_F(Script, PassesTheWholeExperimentToTheHost) {
  KeepingHost host;
  run(kValid, host);
  ASSERT_EQ(host.experiments.size(), 1U);
  const Experiment& experiment = host.experiments[0];
  EXPECT_EQ(experiment.script, folder_ / "main.lua");
  EXPECT_EQ(experiment.script_sha256, sha256(kValid));
  EXPECT_EQ(experiment.base.plugin_path, std::vector<std::string>{plugins_.path()});
  EXPECT_EQ(experiment.base.experiment, "x");
}

TEST_F(Script, RoundsAreANumberOrLeftOpen) {
  const auto script = [](const std::string& options) {
    return "local rush = require 'optrush'\nrush.experiment { name = 'x', model = rush.llama 'nano' }:run "
           "{ " +
           options + " }\n";
  };
  KeepingHost host;
  run(script("within = 0.02, at_most = '5m'"), host);
  EXPECT_EQ(host.experiments.at(0).until, (Until{.within = 0.02, .at_most_s = 300}));
  run(script("within = 0.02, at_most = 90"), host);
  EXPECT_EQ(host.experiments.at(1).until->at_most_s, 90);
  run(script("at_most = '5m'"), host);
  EXPECT_EQ(host.experiments.at(2).until, (Until{.within = 0.03, .at_most_s = 300}));
  EXPECT_THAT(error(script("rounds = 3, within = 0.02, at_most = '5m'")), HasSubstr("exp:run: rounds"));
  EXPECT_THAT(error(script("rounds = 3, at_most = '5m'")), HasSubstr("exp:run: rounds"));
  EXPECT_THAT(error(script("within = 0.02")), is_error("missing_value", "at_most"));
  EXPECT_THAT(error(script("within = 0.02, at_most = 'soon'")), is_error("invalid_value", "\"soon\""));
  EXPECT_THAT(error(script("within = 3, at_most = '5m'")), HasSubstr("within"));
}

TEST_F(Script, NamesWithInvisibleCharactersAreRefused) {
  const auto named = [&](const std::string& name) {
    return error("local rush = require 'optrush'\nrush.rung(\"" + name + "\")\n");
  };
  for (const std::string control : {"\\a", "\\u{9b}31m", "\\u{202e}", "\\u{2066}", "\\u{2028}"})
    EXPECT_THAT(named("a" + control + "b"), HasSubstr("invisible character")) << control;
  for (const std::string letter : {"é", "→", "中", "\\u{a0}", "\\u{2027}", "\\u{202f}"})
    EXPECT_THAT(named("a" + letter + "b"), Not(HasSubstr("invisible character"))) << letter;
}

TEST_F(Script, TheShippedQuickstartIsAnExperiment) {
  KeepingHost host;
  run_file(kRoot / "experiments" / "quickstart.lua", host);
  ASSERT_EQ(host.experiments.size(), 1U);
  EXPECT_EQ(host.experiments[0].name, "quickstart");
  EXPECT_GE(expand(host.experiments[0]).size(), 5U);
}

TEST_F(Script, ACopyOfAShippedExperimentFindsItsModulesAndPrograms) {
  KeepingHost host;
  run(R"(local rush = require "optrush"
local pytorch = require "peers.pytorch"
local exp = rush.experiment { name = "x", model = rush.llama "nano" }
exp:ladder { pytorch { name = "PyTorch", with = { "sdpa" } } }
exp:run()
)",
      host);
  const auto variants = expand(host.experiments.at(0));
  const External& external = variants.at(1).external.value();
  const fs::path peers = kRoot / "experiments/peers";
  EXPECT_EQ(external.folder, folder_.path());
  EXPECT_EQ(external.command.at(1), peers / "transformers_twin.py");
  EXPECT_EQ(external.requirements, peers / "requirements.txt");
  EXPECT_EQ(external.packages, peers / "packages.txt");
  EXPECT_GT(external.files.size(), 5U);
}

TEST_F(Script, AFileBesideTheScriptIsTakenBeforeAShippedOne) {
  fs::create_directories(folder_ / "peers");
  write("peers/pytorch.lua", "return 'own'");
  write("peers/requirements.txt", "");
  KeepingHost host;
  run(R"(local rush = require "optrush"
assert(require "peers.pytorch" == "own")
local exp = rush.experiment { name = "x", model = rush.llama "nano" }
exp:ladder { rush.external { name = "e", command = { "sh" }, requirements = "peers/requirements.txt" } }
exp:run()
)",
      host);
  EXPECT_EQ(expand(host.experiments.at(0)).at(1).external.value().requirements, "peers/requirements.txt");
}

/// The pages of the documentation.
std::vector<fs::path> documentation() {
  std::vector<fs::path> pages = {kRoot / "README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  return pages;
}

/// Every block of Lua in the documentation runs. A block may be a part of an experiment, or name a checkpoint
/// of the reader.
TEST_F(Script, TheExamplesOfTheDocumentationAreValid) {
  write("requirements.txt", "");
  write("packages.txt", "");
  const std::string fence = "```lua\n";
  int blocks = 0;
  for (const fs::path& page : documentation()) {
    const std::string text = read_file(page);
    for (size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at + 1), ++blocks) {
      const size_t begin = at + fence.size();
      const std::string block = text.substr(begin, text.find("```", begin) - begin);
      const std::string said = error("local rush = require 'optrush'\n" + block);
      const bool whole_or_part = said.empty() || said.find("describes no experiment") != std::string::npos ||
                                 said.find("is not run") != std::string::npos ||
                                 said.find("no config.json in") != std::string::npos;
      EXPECT_TRUE(whole_or_part) << page << "\n" << block << said;
    }
  }
  EXPECT_GE(blocks, 20);
}

/// Answers like a machine with a GPU.
class GpuHost final : public ScriptHost {
 public:
  fs::path run(const Experiment& experiment) override {
    names.push_back(experiment.base.device + " " + experiment.name);
    return "reports/x";
  }
  void report(const fs::path&) override {}
  Json gpu() override { return {{"name", "H"}, {"memory_bytes", 100}, {"sm", "sm_90"}}; }
  std::optional<int64_t> predicted_peak(const RunSpec& spec) override {
    EXPECT_EQ(spec.device, "cuda");
    return 20 * spec.train.micro_batch;
  }
  std::vector<std::string> names;
};

TEST_F(Script, AsksForTheGpuOfTheDevice) {
  const fs::path script = write("gpu.lua", R"(local rush = require "optrush"
local gpu = rush.gpu()
local name = gpu and gpu.name .. gpu.memory_bytes .. gpu.sm or "none"
if gpu then name = name .. "-" .. rush.max_batch { model = rush.llama "nano" } end
rush.experiment { name = name, model = rush.llama "nano" }:run()
)");
  GpuHost host;
  run_script(script, host, {.library = kRoot / "scripts", .device = "cuda"});
  run_script(script, host, {.library = kRoot / "scripts", .device = "cpu"});
  EXPECT_THAT(host.names, ::testing::ElementsAre("auto H100sm_90-4", "auto none"))
      << "4 sequences of 20 bytes fit into 90 % of 100";
}

TEST_F(Script, PresetMustBeDeclaredByTheScript) {
  const std::string choosing = R"(local rush = require "optrush"
rush.experiment { name = rush.preset { "short", "full" }, model = rush.llama "nano" }:run()
)";
  const auto name_with = [&](const std::string& preset, const std::string& text) {
    KeepingHost host;
    run_script(write("preset.lua", text), host, {.library = kRoot / "scripts", .preset = preset});
    return host.experiments.at(0).name;
  };
  EXPECT_EQ(name_with("", choosing), "short");
  EXPECT_EQ(name_with("full", choosing), "full");
  EXPECT_THAT(error_of([&] { name_with("ful", choosing); }), HasSubstr("did you mean 'full'?"));
  EXPECT_THAT(error_of([&] { name_with("full", kValid); }), HasSubstr("has no presets"));
}

TEST_F(Script, ArgumentsHaveTheTypeOfTheirDefault) {
  const std::string reading = R"(local rush = require "optrush"
local layers, share = rush.arg("layers", 2), rush.arg("share", 0.5)
local mode, quick = rush.arg("mode", "a", { "a", "b" }), rush.arg("quick", false)
assert(math.type(layers) == "integer" and math.type(share) == "float" and type(quick) == "boolean")
rush.experiment { name = "x", model = rush.llama("nano", { n_layers = layers }) }:run()
)";
  const auto arguments_with = [&](const std::map<std::string, std::string>& given, const std::string& text) {
    KeepingHost host;
    run_script(write("arguments.lua", text), host, {.library = kRoot / "scripts", .arguments = given});
    EXPECT_EQ(host.experiments.at(0).base.model.at("n_layers"),
              host.experiments.at(0).arguments.value("layers", 2));
    return host.experiments.at(0).arguments;
  };
  EXPECT_EQ(arguments_with({}, reading),
            Json({{"layers", 2}, {"share", 0.5}, {"mode", "a"}, {"quick", false}}));
  EXPECT_EQ(arguments_with({{"layers", "4"}, {"share", "1"}, {"mode", "b"}, {"quick", "true"}}, reading),
            Json({{"layers", 4}, {"share", 1.0}, {"mode", "b"}, {"quick", true}}));
  const auto refused = [&](const std::string& name, const std::string& value, const std::string& text) {
    return error_of([&] { arguments_with({{name, value}}, text); });
  };
  EXPECT_THAT(refused("layers", "many", reading),
              AllOf(HasSubstr("--arg layers=many"), HasSubstr("must be an integer")));
  EXPECT_THAT(refused("layers", "2.5", reading), HasSubstr("must be an integer"));
  EXPECT_THAT(refused("mode", "c", reading), HasSubstr("one of 'a', 'b'"));
  EXPECT_THAT(refused("layrs", "4", reading), is_error("unknown_name", "'layers'"));
  EXPECT_THAT(refused("layers", "4", kValid), HasSubstr("--set"));
  EXPECT_THAT(refused("layers", "many", "pcall(require 'optrush'.arg, 'layers', 1)\n" + kValid),
              HasSubstr("must be an integer"))
      << "pcall does not hide the error";
}

/// Changes the working directory during its lifetime.
struct StandingIn {
  explicit StandingIn(const std::filesystem::path& folder) { std::filesystem::current_path(folder); }
  ~StandingIn() { std::filesystem::current_path(before); }
  StandingIn(const StandingIn&) = delete;
  StandingIn& operator=(const StandingIn&) = delete;
  std::filesystem::path before = std::filesystem::current_path();
};

TEST_F(Script, PathsOfTheCommandLineStartAtTheWorkingDirectory) {
  const TemporaryFolder user;
  for (const auto& folder : {folder_.path(), user.path()}) {
    write_file(folder / "same.txt", "text");
    std::filesystem::create_directories(folder / "deep");
    write_file(folder / "deep/more.txt", "text");
  }
  write_file(folder_ / "own.txt", "text");
  const StandingIn there(user.path());
  const auto path_with = [&](const std::map<std::string, std::string>& given, const std::string& source) {
    KeepingHost host;
    run_script(write("paths.lua",
                     "local rush = require 'optrush'\nlocal file = rush.arg('file', 'same.txt')\n"
                     "rush.experiment { name = 'x', model = rush.llama 'nano', data = rush.text(" +
                         source + ") }:run()\n"),
               host, {.library = kRoot / "scripts", .arguments = given});
    return std::filesystem::path(host.experiments.at(0).base.data.path);
  };
  const auto absolute = std::filesystem::canonical(user.path());
  EXPECT_EQ(path_with({}, "file"), folder_ / "same.txt") << "a default is relative to the script";
  EXPECT_EQ(std::filesystem::canonical(path_with({{"file", "same.txt"}}, "file")), absolute / "same.txt");
  EXPECT_EQ(std::filesystem::canonical(path_with({{"file", "./same.txt"}}, "file")), absolute / "same.txt");
  EXPECT_EQ(path_with({{"file", "deep"}}, "'same.txt'"), folder_ / "same.txt")
      << "a literal is relative to the script";
  EXPECT_EQ(std::filesystem::canonical(path_with({{"file", "deep"}}, "file .. '/more.txt'")),
            absolute / "deep/more.txt");
  EXPECT_EQ(path_with({{"file", (folder_ / "own.txt").string()}}, "file"), folder_ / "own.txt");
  EXPECT_THAT(error_of([&] {
                path_with({{"file", "own.txt"}}, "file");
              }),
              AllOf(HasSubstr((absolute / "own.txt").string()), HasSubstr("start at the working directory")));
}

struct Interrupted {};

class ThrowingHost final : public ScriptHost {
 public:
  fs::path run(const Experiment&) override {
    ++runs;
    throw Interrupted();
  }
  void report(const fs::path&) override { throw std::runtime_error("disk full"); }
  int runs = 0;
};

TEST_F(Script, ExceptionsOfTheHostPassUnchanged) {
  ThrowingHost host;
  EXPECT_THROW(run(kValid, host), Interrupted);
}

TEST_F(Script, PcallCannotSwallowAFailureOfTheHost) {
  ThrowingHost host;
  const std::string script = R"(local rush = require "optrush"
local exp = rush.experiment { name = "x", model = rush.llama "nano" }
for _ = 1, 3 do assert(not pcall(exp.run, exp)) end
assert(not coroutine.resume(coroutine.create(function() exp:run() end)))
)";
  EXPECT_THROW(run(script, host), Interrupted);
  EXPECT_EQ(host.runs, 1) << "no run follows a failure";
}

TEST_F(Script, ErrorsKeepTheirParts) {
  KeepingHost host;
  try {
    run("local rush = require 'optrush'\nrush.llama 'tinny'", host);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.where(), "main.lua:2");
    EXPECT_THAT(e.message(), HasSubstr("preset must be one of"));
    EXPECT_EQ(e.cure(), "did you mean 'tiny'?");
  }
}

TEST_F(Script, AMissingFileIsNamed) {
  KeepingHost host;
  EXPECT_THAT(error_of([&] { run_file(folder_ / "nowhere.lua", host); }), HasSubstr("nowhere.lua"));
  EXPECT_THAT(error_of([&] { run_file(folder_.path(), host); }), HasSubstr(folder_.path().string()));
}

TEST_F(Script, ByteOrderMarkAndFirstLineOfAProgramAreSkipped) {
  KeepingHost host;
  run("\xEF\xBB\xBF#!/usr/bin/env optrush\n" + kValid, host);
  EXPECT_EQ(host.experiments.size(), 1U);
  EXPECT_THAT(error("#!x\nlocal = 1"), HasSubstr("main.lua:2:")) << "lines keep their numbers";
}

TEST_F(Script, BinaryFilesAreRefused) {
  const std::string bytecode("\x1bLua\x54\x00\x19\x93\r\n\x1a\n", 12);
  EXPECT_THAT(error(bytecode), HasSubstr("Lua source"));
  write("binary.lua", bytecode);
  EXPECT_THAT(error("require 'binary'"), HasSubstr("Lua source"));
}

TEST_F(Script, ModulesMayBeLinksOnlyInsideTheFolder) {
  const TemporaryFolder outside;
  write_file(outside / "secret.lua", "return 1");
  fs::create_symlink(outside / "secret.lua", folder_ / "link.lua");
  fs::create_directory_symlink(outside.path(), folder_ / "folder");
  EXPECT_THAT(error("require 'link'"), HasSubstr("is a link to a file outside of"));
  EXPECT_THAT(error("require 'folder.secret'"), HasSubstr("is a link to a file outside of"));
  write("real.lua", "return 7");
  fs::create_symlink("real.lua", folder_ / "near.lua");
  EXPECT_THAT(error("assert(require 'near' == 7)"), HasSubstr("describes no experiment"));
  fs::create_directory(folder_ / "dir.lua");
  EXPECT_THAT(error("require 'dir'"), HasSubstr("no module 'dir'"));
}

TEST_F(Script, AModuleOfALinkedScriptFolderIsFound) {
  fs::create_directory(folder_ / "real");
  write_file(folder_ / "real" / "part.lua", "return {}");
  write_file(folder_ / "real" / "main.lua", "require 'part'\n" + kValid);
  fs::create_directory_symlink(folder_ / "real", folder_ / "alias");
  KeepingHost host;
  run_file(folder_ / "alias" / "main.lua", host);
  EXPECT_EQ(host.experiments.size(), 1U);
}

// ---- files that are generated from the binding table
// --------------------------------------------------------

/// Expects `text` in `file` between `begin` and `end`. OPTRUSH_UPDATE_GOLDENS=1 writes it.
void expect_in_file(const fs::path& file, const std::string& begin, const std::string& end,
                    const std::string& text) {
  const std::string content = read_file(file);
  const size_t first = content.find(begin);
  ASSERT_NE(first, std::string::npos) << file << " lacks " << begin;
  const size_t from = first + begin.size();
  const size_t to = end.empty() ? content.size() : content.find(end, from);
  ASSERT_NE(to, std::string::npos) << file << " lacks " << end;
  if (std::getenv("OPTRUSH_UPDATE_GOLDENS") != nullptr)
    write_file(file, content.substr(0, from) + text + content.substr(to));
  else
    EXPECT_EQ(content.substr(from, to - from), text) << "OPTRUSH_UPDATE_GOLDENS=1 writes it";
}

TEST(BindingTable, CommittedStubsMatchTheTable) {
  expect_in_file(kRoot / "scripts" / "meta" / "optrush.lua", "", "", lua_stubs());
}

TEST(BindingTable, CommittedReferenceMatchesTheTable) {
  expect_in_file(kRoot / "docs" / "reference" / "lua.md",
                 "<!-- reference: made from the binding table (core/script/api.h) -->\n\n",
                 "<!-- end of reference -->", lua_reference());
}

TEST(BindingTable, EveryFunctionAndFieldHasAStubAndADoc) {
  const std::string stubs = lua_stubs();
  for (const auto& function : api().functions) {
    const std::string stub = function.property ? "---@field " + function.name + " "
                             : function.owner.empty()
                                 ? "function rush." + function.name + "("
                                 : "function " + function.owner + ":" + function.name + "(";
    EXPECT_THAT(stubs, HasSubstr(stub));
    EXPECT_NE(function.call, nullptr) << function.title();
    EXPECT_FALSE(function.doc.empty() || function.returns.empty()) << function.title();
    for (const auto& parameter : function.parameters) {
      EXPECT_FALSE(parameter.doc.empty()) << function.title() << " " << parameter.name;
      EXPECT_THAT(stubs, HasSubstr("---@param " + parameter.name));
    }
  }
  for (const auto& known : api().classes) {
    EXPECT_FALSE(known.doc.empty()) << known.name;
    for (const auto& field : known.fields) EXPECT_FALSE(field.doc.empty()) << known.name << "." << field.name;
  }
}

/// The public names for scripts. Removing a name breaks scripts. A new name is added here with its golden
/// script.
TEST(BindingTable, HasExactlyThePublicNames) {
  std::vector<std::string> titles;
  for (const auto& function : api().functions) titles.push_back(function.title());
  EXPECT_THAT(titles, ::testing::UnorderedElementsAre(
                          "rush.experiment", "rush.rung", "rush.external", "rush.llama", "rush.operator",
                          "rush.collective", "rush.checkpoint", "rush.random", "rush.text", "rush.documents",
                          "rush.preferences", "rush.tokens", "rush.corpus", "rush.device", "rush.gpu",
                          "rush.cpu", "rush.sizes", "rush.ranks", "rush.max_batch", "rush.preset", "rush.arg",
                          "rush.plugins", "exp:ladder", "exp:ablation", "exp:grid", "exp:run", "exp:search",
                          "report:report", "report.dir"));
}

/// Every bound function needs a golden script that calls it.
TEST(BindingTable, EveryFunctionIsCalledByAGoldenScript) {
  std::string scripts;
  for (const auto& entry : fs::directory_iterator(kRoot / "tests" / "scripts"))
    if (entry.path().extension() == ".lua") scripts += read_file(entry.path());
  for (const auto& function : api().functions)
    EXPECT_THAT(scripts, HasSubstr((function.owner.empty() ? "rush."
                                    : function.property    ? "."
                                                           : ":") +
                                   function.name));
}

TEST_F(Script, StubsOfPluginsNameTheirOptions) {
  const std::string stubs = lua_stubs(Catalogue::find({plugins_.path()}).plugins());
  EXPECT_THAT(error(stubs), HasSubstr("editor stubs cannot be required")) << "they are valid Lua";
  EXPECT_THAT(
      stubs,
      HasSubstr("---@class LoraOptions\n---@field rank? integer rank (at least 1, at most 4096, default 8)"));
  EXPECT_THAT(stubs, HasSubstr("---@class GradientAccumulationOptions\n---@field steps integer"));
  EXPECT_THAT(stubs, HasSubstr("---@field policy? \"full\"|\"every\" which"));
  EXPECT_THAT(stubs, HasSubstr("plugin: \"lora\", options?: LoraOptions, settings?: RungSettings): Rung"));
}
}  // namespace
}  // namespace optrush
