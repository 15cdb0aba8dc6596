// Loops over CPU tensors use all threads of LibTorch's OpenMP runtime.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace optrush::testing {
namespace {
namespace fs = std::filesystem;

std::set<fs::path> loaded_openmp_runtimes() {
  std::set<fs::path> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t begin = line.find('/');
    if (begin == std::string::npos) continue;
    const fs::path path = line.substr(begin);
    const std::string name = path.filename();
    if (name.starts_with("libgomp") || name.starts_with("libomp.") || name.starts_with("libiomp"))
      found.insert(path);
  }
  return found;
}

fs::path folder_of_libtorch() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with("/libtorch_cpu.so")) return fs::path(line.substr(line.find('/'))).parent_path();
  return {};
}
}  // namespace

TEST(OpenMp, AParallelLoopUsesEveryThread) {
#ifndef _OPENMP
  GTEST_SKIP() << "this build has no OpenMP: another compiler than GCC, or ThreadSanitizer";
#endif
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  std::vector<std::thread::id> ids(3);
  at::parallel_for(0, 3, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ids[static_cast<size_t>(i)] = std::this_thread::get_id();
  });
  at::set_num_threads(before);
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 3U);
}

TEST(OpenMp, TheProcessHasOnlyTheRuntimeOfLibTorch) {
  const std::set<fs::path> found = loaded_openmp_runtimes();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.begin()->parent_path(), folder_of_libtorch());
}
}  // namespace optrush::testing
