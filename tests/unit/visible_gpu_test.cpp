#include "machine/visible_gpu.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/temporary_folder.h"

namespace optrush::testing {
namespace {
TEST(VisibleGpu, IsShownByTheDriverAndNotHidden) {
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

TEST(VisibleGpu, IsFoundByItsDeviceFileIfProcHasNoDriver) {
  const TemporaryFolder root;
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const auto make = [&](const char* file) {
    const auto path = root.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path).put('\n');
  };
  for (const char* of_no_gpu : {"dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-modeset", "dev/dxg"}) {
    make(of_no_gpu);
    EXPECT_FALSE(gpu_is_visible(root.path())) << of_no_gpu;
  }
  make("usr/lib/wsl/lib/libcuda.so.1");
  EXPECT_TRUE(gpu_is_visible(root.path()));
  std::filesystem::remove(root.path() / "dev/dxg");
  EXPECT_FALSE(gpu_is_visible(root.path()));
  make("dev/nvidia3");
  EXPECT_TRUE(gpu_is_visible(root.path()));
}

TEST(VisibleGpu, FollowsTheLocalRank) {
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(gpu_of(rank, 8), rank);
    EXPECT_EQ(gpu_of(rank, 4), rank);
    EXPECT_EQ(gpu_of(rank, 1), 0) << "srun --gpus-per-task=1";
  }
  EXPECT_EQ(gpu_of(3, 2), 1);
  EXPECT_EQ(gpu_of(0, 0), 0);
}
}  // namespace
}  // namespace optrush::testing
