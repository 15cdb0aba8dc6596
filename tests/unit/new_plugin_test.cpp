#include "authoring/new_plugin.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "optrush/error.h"

namespace fs = std::filesystem;

namespace optrush {
namespace {
TEST(NewPlugin, ValidNamesAreAccepted) {
  for (const auto* name : {"a", "fused_adamw", "fp8", "x_2"})
    EXPECT_NO_THROW(check_plugin_name(name)) << name;
}

TEST(NewPlugin, InvalidNamesAreRefusedWithTheRule) {
  for (const auto* name : {"", "Fused", "8bit", "_x", "a-b", "a b", "../x", "é"}) {
    try {
      check_plugin_name(name);
      ADD_FAILURE() << "'" << name << "' was taken";
    } catch (const UsageError& error) {
      EXPECT_NE(error.cure().find("start with a lower-case letter"), std::string::npos);
    }
  }
  EXPECT_THROW(check_plugin_name(std::string(41, 'a')), UsageError);
  EXPECT_THROW(check_plugin_name("test"), UsageError);
}

class NewPluginFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  void expect_no_placeholder() const {
    for (const auto& file : fs::recursive_directory_iterator(folder_)) {
      if (!file.is_regular_file()) continue;
      const std::string text = read_file(file.path());
      for (const auto* placeholder : {"@name@", "@class@", "@version@", "@kernel@"}) {
        EXPECT_EQ(text.find(placeholder), std::string::npos) << file.path();
      }
    }
  }
  // One folder for each process, because tests run in parallel.
  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("optrush_new_plugin_test_" + std::to_string(getpid()));
};

TEST_F(NewPluginFiles, AreFilledIn) {
  write_new_plugin("low_bit_2x", folder_);
  const std::string source = read_file(folder_ / "src" / "low_bit_2x.cpp");
  EXPECT_NE(source.find("class LowBit2x : public optrush::Plugin"), std::string::npos);
  EXPECT_NE(source.find("\"name\": \"low_bit_2x\""), std::string::npos);
  const std::string build = read_file(folder_ / "CMakeLists.txt");
  EXPECT_NE(build.find("optrush_add_plugin(low_bit_2x SOURCES src/low_bit_2x.cpp)"), std::string::npos);
  EXPECT_NE(build.find("set(CMAKE_BUILD_TYPE Release)"), std::string::npos)
      << "an unoptimized plugin would be measured";
  // CMake's files are kept.
  EXPECT_NE(build.find("${CMAKE_BINARY_DIR}/plugins"), std::string::npos);
  expect_no_placeholder();
}

TEST_F(NewPluginFiles, HaveAGpuKernelOnRequest) {
  write_new_plugin("fast_swiglu", folder_, NewPlugin::kernel);
  EXPECT_NE(read_file(folder_ / "src" / "fast_swiglu.cu").find("__global__ void forward"), std::string::npos);
  const std::string source = read_file(folder_ / "src" / "fast_swiglu.cpp");
  EXPECT_NE(source.find("#include \"fast_swiglu_cu.h\""), std::string::npos);
  EXPECT_NE(source.find("class FastSwiglu final"), std::string::npos);
  EXPECT_NE(
      read_file(folder_ / "CMakeLists.txt").find("optrush_embed(fast_swiglu src/fast_swiglu.cu kKernels)"),
      std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "test" / "kernels.cpp"));
  EXPECT_NE(read_file(folder_ / "README.md").find("`src/fast_swiglu.cu` holds"), std::string::npos);
  expect_no_placeholder();
}

TEST_F(NewPluginFiles, AreAnOptimizerOnRequest) {
  write_new_plugin("small_steps", folder_, NewPlugin::optimizer);
  const std::string source = read_file(folder_ / "src" / "small_steps.cpp");
  EXPECT_NE(source.find("class SmallStepsOptimizer final : public Optimizer"), std::string::npos);
  EXPECT_NE(source.find("OPTRUSH_PLUGIN(SmallStepsPlugin"), std::string::npos);
  EXPECT_NE(read_file(folder_ / "test" / "ladder.lua").find("target_loss"), std::string::npos);
  EXPECT_NE(read_file(folder_ / "README.md").find("replaces AdamW"), std::string::npos);
  expect_no_placeholder();
}

TEST_F(NewPluginFiles, NeverOverwrite) {
  write_new_plugin("mine", folder_);
  EXPECT_THROW(write_new_plugin("mine", folder_), UsageError);
}
}  // namespace
}  // namespace optrush
