// Runs every script of this folder and checks the expectations in the comments at its head:
//   -- expect: LINE           the whole output, line by line
//   -- expect-error: TEXT     it fails, and the error, with its code in front, contains TEXT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "described_plugins.h"
#include "machine/torch_folder.h"
#include "optrush/error.h"
#include "printing_host.h"
#include "support/folders.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
const fs::path kScripts = fs::path(testing::tests_folder()) / "scripts";
const fs::path kLibrary = fs::path(testing::tests_folder()).parent_path() / "scripts";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The comments of a kind at the head of a script.
std::vector<std::string> expectations(const std::string& script, const std::string& kind) {
  std::vector<std::string> found;
  for (const auto& line : lines_of(script)) {
    if (!line.starts_with("--")) break;
    if (line.starts_with("-- " + kind + ": ")) found.push_back(line.substr(kind.size() + 5));
  }
  return found;
}

/// Replaces paths of this machine by their names.
std::string portable(std::string text) {
  for (const auto& [path, name] : {std::pair<std::string, std::string>{kScripts, "<scripts>"},
                                   {kLibrary, "<library>"},
                                   {kLibrary.parent_path() / "experiments", "<experiments>"},
                                   {torch_folder(), "<torch>"}})
    for (size_t at = text.find(path); at != std::string::npos; at = text.find(path))
      text.replace(at, path.size(), name);
  return text;
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, OutputMatchesTheHeaderOfTheScript) {
  const fs::path script = kScripts / GetParam();
  const TemporaryFolder plugins;
  testing::write_described_plugins(plugins.path());
  testing::PrintingHost host;
  std::string error;
  ::testing::internal::CaptureStdout();
  try {
    run_script(script, host, {.plugin_path = {plugins.path()}, .library = kLibrary, .device = "cpu"});
  } catch (const Error& e) {
    error = std::string(to_string(e.code())) + ": " + portable(e.what());
  }
  const auto output = lines_of(portable(::testing::internal::GetCapturedStdout()));

  const std::string text = read_file(script);
  const auto lines = expectations(text, "expect"), errors = expectations(text, "expect-error");
  ASSERT_FALSE(lines.empty() && errors.empty()) << "the script has no expectations";
  EXPECT_EQ(error.empty(), errors.empty()) << error;
  for (const auto& part : errors) EXPECT_THAT(error, ::testing::HasSubstr(part));
  EXPECT_EQ(join(output, "\n"), join(lines, "\n"));
}

std::vector<std::string> scripts() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kScripts))
    if (entry.path().extension() == ".lua") names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find('.'));
}

INSTANTIATE_TEST_SUITE_P(Scripts, Golden, ::testing::ValuesIn(scripts()), name_of);
}  // namespace
}  // namespace optrush
