#include "base/visible_gpu.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "../support/temporary_folder.h"

namespace optrush::testing {
namespace {
TEST(VisibleGpu, IsOneThatTheDriverShowsAndNobodyHides) {
  const TemporaryFolder root;
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_FALSE(gpu_is_visible(root.path()));
  std::filesystem::create_directories(root / "proc/driver/nvidia/gpus");
  EXPECT_FALSE(gpu_is_visible(root.path()));
  std::filesystem::create_directories(root / "proc/driver/nvidia/gpus/0000:01:00.0");
  EXPECT_TRUE(gpu_is_visible(root.path()));
  for (const char* hidden : {"", "-1"}) {
    ::setenv("CUDA_VISIBLE_DEVICES", hidden, 1);
    EXPECT_FALSE(gpu_is_visible(root.path())) << hidden;
  }
  ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  EXPECT_TRUE(gpu_is_visible(root.path()));
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}
}  // namespace
}  // namespace optrush::testing
