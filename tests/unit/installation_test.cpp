#include "machine/installation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "build_info.h"
#include "machine/torch_folder.h"

namespace optrush::testing {
namespace {
namespace fs = std::filesystem;

TEST(Installation, PrefixIsRecognizedByItsPlugins) {
  const TemporaryFolder prefix;
  fs::create_directories(prefix / "bin");
  fs::create_directories(prefix / "lib/optrush/plugins");
  const Installation bare = Installation::of_programs_in(prefix / "bin");
  EXPECT_TRUE(bare.installed);
  EXPECT_EQ(bare.worker, prefix / "bin/optrush-worker");
  EXPECT_EQ(bare.experiments, prefix / "share/optrush/experiments");
  EXPECT_TRUE(bare.torch.empty() && bare.source.empty() && bare.commit.empty());

  fs::create_directories(prefix / "share/optrush");
  write_file(prefix / "share/optrush/installation.json", R"({"torch": "/t/torch", "commit": "abc"})");
  const Installation told = Installation::of_programs_in(prefix / "bin");
  EXPECT_EQ(told.torch, "/t/torch");
  EXPECT_EQ(told.commit, "abc");
}

TEST(Installation, BuildTreeOfAProgramIsFound) {
  const TemporaryFolder tree;
  fs::create_directories(tree / "tests/bin");
  write_file(tree / "installation.json", R"({"source": "/s", "torch": "/t/torch"})");
  const Installation found = Installation::of_programs_in(tree / "tests/bin");
  EXPECT_FALSE(found.installed);
  EXPECT_EQ(found.root, tree.path());
  EXPECT_EQ(found.plugins, tree / "plugins");
  EXPECT_EQ(found.experiments, "/s/experiments");

  // An installed plugin does not make the folder a prefix.
  fs::create_directories(tree / "lib/optrush/plugins");
  fs::create_directories(tree / "bin");
  EXPECT_FALSE(Installation::of_programs_in(tree / "bin").installed);
}

TEST(Installation, LoneProgramNamesTheMissingFolders) {
  const TemporaryFolder bin;
  EXPECT_THAT(error_of([&] { Installation::of_programs_in(bin.path()); }),
              ::testing::HasSubstr("bin/, lib/ and share/ together"));
}

TEST(TorchFolder, ComesFromTheEnvironmentIfLibTorchIsNotLoaded) {
  ::setenv("OPTRUSH_TORCH", "/named/torch", 1);
  EXPECT_EQ(torch_folder(), "/named/torch");
}

/// The folder of a torch with this version in its headers.
void write_torch(const fs::path& torch, int minor) {
  fs::create_directories(torch / "include/torch/headeronly");
  write_file(torch / "include/torch/headeronly/version.h",
             "#pragma once\n#define TORCH_VERSION_MAJOR 2\n\n#define TORCH_VERSION_MINOR " +
                 std::to_string(minor) + "\n#define TORCH_VERSION_PATCH 3\n");
}

TEST(TorchVersion, ComesFromTheHeaders) {
  const TemporaryFolder folder;
  EXPECT_EQ(torch_version_in(folder / "torch"), "");
  write_torch(folder / "torch", 99);
  EXPECT_EQ(torch_version_in(folder / "torch"), "2.99.3");
  EXPECT_EQ(minor_version("2.11.0+cu130"), "2.11");
}

TEST(TorchVersion, AnotherMinorVersionIsRefusedBeforeAWorkerStarts) {
  const TemporaryFolder folder;
  write_torch(folder / "other", 99);
  const std::string built = minor_version(OPTRUSH_TORCH_VERSION);
  EXPECT_THAT(error_of([&] { worker_for_torch(folder / "other"); }),
              is_error("missing_requirement", (folder / "other").string(), "torch 2.99.3",
                       "LibTorch " + built, "torch==" + built + ".*"));
  write_torch(folder / "same", std::stoi(built.substr(built.find('.') + 1)));
  EXPECT_EQ(worker_for_torch(folder / "same").filename(), "optrush-worker");
  EXPECT_EQ(worker_for_torch(folder / "unknown").filename(), "optrush-worker");
}

TEST(CudaFolders, FoldersOfTorchPrecedeThoseOfTheToolkit) {
  const TemporaryFolder module, toolkit;
  fs::create_directories(module / "nvidia/cuda_runtime/include");
  fs::create_directories(module / "nvidia/cuda_nvrtc/lib");
  fs::create_directories(toolkit / "include/cccl");
  fs::create_directories(toolkit / "lib64");
  ::setenv("CUDA_HOME", toolkit.path().c_str(), 1);
  const auto includes = cuda_include_folders(module / "torch"),
             libraries = cuda_library_folders(module / "torch");
  ::unsetenv("CUDA_HOME");
  ASSERT_GE(includes.size(), 3u);
  EXPECT_EQ(includes[0], module / "nvidia/cuda_runtime/include");
  EXPECT_EQ(includes[1], toolkit / "include");
  EXPECT_EQ(includes[2], toolkit / "include/cccl");
  ASSERT_GE(libraries.size(), 2u);
  EXPECT_EQ(libraries[0], module / "nvidia/cuda_nvrtc/lib");
  EXPECT_EQ(libraries[1], toolkit / "lib64");
}
}  // namespace
}  // namespace optrush::testing
