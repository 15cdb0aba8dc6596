#include "measure/cpu_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;

/// A fake machine: /proc and /sys below a folder.
class CpuInfoTest : public ::testing::Test {
 protected:
  void file(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    write_file(root_ / name, text);
  }
  /// `core` is the physical core of each logical processor.
  void processors(const std::vector<int>& core, const std::string& flags, int cpuid_level = 32) const {
    std::string text;
    for (size_t i = 0; i < core.size(); ++i)
      text += "processor\t: " + std::to_string(i) +
              "\nmodel name\t: Test CPU\nphysical id\t: 0\ncore id\t\t: " + std::to_string(core[i]) +
              "\ncpuid level\t: " + std::to_string(cpuid_level) + "\nflags\t\t: " + flags + "\n\n";
    file("proc/cpuinfo", text);
    file("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-" + std::to_string(core.size() - 1) + "\n");
    file("proc/meminfo", "MemTotal:       1000000 kB\nMemFree: 1 kB\nMemAvailable:    400000 kB\n");
  }
  void cache(int processor, int index, const std::string& size, const std::string& sharers) const {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(processor) + "/cache/index" +
                               std::to_string(index) + "/";
    file(folder + "level", std::to_string(index) + "\n");
    file(folder + "type", "Unified\n");
    file(folder + "size", size + "\n");
    file(folder + "shared_cpu_list", sharers + "\n");
  }
  CpuInfo read() const { return read_cpu(root_.path()); }

  TemporaryFolder root_;
};

TEST_F(CpuInfoTest, CountsCoresAndThreadsAndNamesInstructionSets) {
  processors({0, 1, 0, 1}, "fpu sse4_2 avx2 fma avx512f avx512_bf16 amx_tile amx_bf16");
  const CpuInfo cpu = read();
  EXPECT_EQ(cpu.name, "Test CPU");
  EXPECT_EQ(cpu.threads, 4);
  EXPECT_EQ(cpu.cores, 2);
  EXPECT_THAT(cpu.isa,
              ElementsAre("sse4_2", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"));
  EXPECT_FALSE(cpu.broken_amx);
  EXPECT_EQ(cpu.memory_bytes, 1000000LL * 1024);
  EXPECT_EQ(cpu.available_bytes, 400000LL * 1024);
}

TEST_F(CpuInfoTest, ModelsTellProcessorsOfOneNameApart) {
  processors({0}, "avx2");
  EXPECT_EQ(read().model, std::nullopt);
  file("proc/cpuinfo", "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: Test CPU\n");
  EXPECT_EQ(read().model, "family 25, model 17");
  file("proc/cpuinfo", "processor\t: 0\nCPU part\t: 0xd40\nFeatures\t: asimd\n");
  EXPECT_EQ(read().model, "part 0xd40");
}

TEST_F(CpuInfoTest, AmxWithoutItsDescriptionIsBroken) {
  processors({0}, "avx512f amx_tile amx_bf16 avx512_fp16", 0x1C);
  const CpuInfo cpu = read();
  EXPECT_TRUE(cpu.broken_amx);
  EXPECT_THAT(cpu.isa, ElementsAre("avx512f", "avx512_fp16"));
}

TEST_F(CpuInfoTest, OldProcessorsWithoutAmxAreNotBroken) {
  processors({0}, "avx2", 0x16);
  EXPECT_FALSE(read().broken_amx);
}

TEST_F(CpuInfoTest, OnlyProcessorsOfTheAffinityMaskCount) {
  processors({0, 1, 2, 3}, "avx2");
  file("proc/self/status", "Cpus_allowed_list:\t1,3\n");
  EXPECT_EQ(read().threads, 2);
  EXPECT_EQ(read().cores, 2);
}

TEST_F(CpuInfoTest, SharedCachesCountOnce) {
  processors({0, 1, 2}, "avx2");
  cache(0, 2, "1024K", "0");
  cache(0, 3, "32768K", "0-1");
  cache(1, 3, "32768K", "0-1");
  cache(2, 3, "32M", "2");
  EXPECT_EQ(read().cache_bytes, int64_t{64} << 20);
}

TEST_F(CpuInfoTest, ControlGroupLimitsMemoryAndProcessors) {
  processors({0, 1}, "avx2");
  file("proc/self/cgroup", "0::/user/job\n");
  file("sys/fs/cgroup/user/job/memory.max", "100000000\n");
  file("sys/fs/cgroup/user/job/memory.current", "40000000\n");
  file("sys/fs/cgroup/cpu.max", "150000 100000\n");
  const CpuInfo cpu = read();
  EXPECT_EQ(cpu.memory_bytes, 100000000);
  EXPECT_EQ(cpu.available_bytes, 60000000);
  EXPECT_EQ(cpu.quota, 1.5);
}

TEST_F(CpuInfoTest, NoLimitIsNoQuota) {
  processors({0}, "avx2");
  file("sys/fs/cgroup/cpu.max", "max 100000\n");
  file("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(read().quota, std::nullopt);
  EXPECT_EQ(read().memory_bytes, 1000000LL * 1024);
}

TEST_F(CpuInfoTest, ArmProcessorsHaveFeatures) {
  file("proc/cpuinfo",
       "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\n\nprocessor\t: 1\nFeatures\t: fp\n\n");
  const CpuInfo cpu = read();
  EXPECT_EQ(cpu.name, "unknown processor");
  EXPECT_EQ(cpu.cores, 2);
  EXPECT_THAT(cpu.isa, ElementsAre("asimd", "i8mm", "bf16", "sve"));
  EXPECT_FALSE(cpu.broken_amx);
}

TEST_F(CpuInfoTest, HugePagesAndGovernorAndLoad) {
  processors({0}, "avx2");
  file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  file("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n");
  file("proc/loadavg", "1.25 0.50 0.10 1/100 42\n");
  const CpuInfo cpu = read();
  EXPECT_EQ(cpu.huge_pages, "madvise");
  EXPECT_EQ(cpu.governor, "powersave");
  EXPECT_EQ(cpu.governor_driver, "acpi-cpufreq");
  EXPECT_DOUBLE_EQ(cpu.load_average, 1.25);
}

TEST_F(CpuInfoTest, BusyProcessorsLeaveOutIdleWaitingAndStolenTime) {
  const auto times = [&](const std::string& total) {
    file("proc/stat", "cpu  " + total + " 0 0\ncpu0 1 1 1\ncpu1 1 1 1\nintr 5\n");
    return read_cpu_times(root_.path());
  };
  const CpuTimes before = times("100 0 100 1000 10 0 0 5");
  const CpuTimes after = times("140 0 110 1040 15 0 0 10");  // 50 busy of 100, on two processors
  EXPECT_DOUBLE_EQ(busy_processors(before, after), 1.0);
  EXPECT_EQ(busy_processors(after, after), 0);
}

TEST_F(CpuInfoTest, NamesTheSystem) {
  EXPECT_EQ(operating_system(root_.path()), "unknown");
  file("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  EXPECT_EQ(operating_system(root_.path()), "Debian GNU/Linux 12 (bookworm)");
}

TEST(ThisCpu, IsReadable) {
  const CpuInfo cpu = read_cpu();
  EXPECT_GE(cpu.threads, 1);
  EXPECT_GE(cpu.threads, cpu.cores);
  EXPECT_GT(cpu.memory_bytes, cpu.available_bytes);
}
}  // namespace
}  // namespace optrush
