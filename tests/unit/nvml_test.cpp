#include "measure/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/gpus.h"

namespace optrush {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Nvml> fake() {
  std::string reason;
  auto nvml = Nvml::open(reason, FAKE_NVML);
  EXPECT_TRUE(nvml) << reason;
  return nvml;
}

TEST(Nvml, ReadsAGpu) {
  const auto nvml = fake();
  ASSERT_EQ(nvml->devices().size(), 2u);
  EXPECT_EQ(nvml->driver(), "570.12.34");
  const GpuInfo gpu = nvml->info(nvml->devices()[0]);
  EXPECT_EQ(gpu.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu.sm, "sm_90");
  EXPECT_EQ(gpu.memory_bytes, 85'000'000'000);
  EXPECT_EQ(gpu.used_bytes, 1'000'000'000);
  EXPECT_EQ(gpu.ecc, true);
  EXPECT_EQ(gpu.clock_mhz, 1200);
  EXPECT_EQ(gpu.max_clock_mhz, 1980);
  EXPECT_EQ(gpu.memory_clock_mhz, 2619);
  EXPECT_EQ(gpu.power_limit_watts, 500.0);
  EXPECT_THAT(gpu.throttling, ElementsAre("sw_power_cap", "hw_thermal_slowdown"));
  EXPECT_EQ(gpu.other_processes, 20);
  // The fake library lacks this function, as an old driver does.
  EXPECT_EQ(gpu.temperature, std::nullopt);
  EXPECT_EQ(gpu.power_watts, std::nullopt);
}

TEST(Nvml, UnreportedFieldsStayEmpty) {
  const auto nvml = fake();
  const GpuInfo gpu = nvml->info(nvml->devices()[1]);
  EXPECT_EQ(gpu.name, "Old GPU");
  EXPECT_EQ(gpu.sm, "sm_35");
  EXPECT_EQ(gpu.used_bytes, std::nullopt);
  EXPECT_EQ(gpu.ecc, std::nullopt);
  EXPECT_EQ(gpu.clock_mhz, std::nullopt);
  EXPECT_THAT(gpu.throttling, IsEmpty());
  EXPECT_EQ(gpu.other_processes, 0);
}

TEST(Nvml, FindsADeviceByItsAddress) {
  const auto nvml = fake();
  EXPECT_EQ(nvml->device_at("0000:1b:00.0"), nvml->devices()[0]);
  EXPECT_EQ(nvml->device_at("0000:2c:00.0"), nullptr);
}

TEST(Nvml, MissingLibraryHasAReason) {
  std::string reason;
  EXPECT_EQ(Nvml::open(reason, "libno-such-nvml.so.1"), nullptr);
  EXPECT_THAT(reason, HasSubstr("no NVIDIA driver"));
  EXPECT_EQ(Nvml::open(reason, "libm.so.6"), nullptr);
  EXPECT_THAT(reason, HasSubstr("lacks functions"));
}

TEST(Processes, OneProcessInAPidNamespaceIsThisOne) {
  const ProcessView host{.self = 7, .in_namespace = false}, container{.self = 7, .in_namespace = true};
  EXPECT_EQ(other_processes({7, 8, 9}, host), 2);
  EXPECT_EQ(other_processes({8, 9}, host), 2);  // this process does not compute on it
  EXPECT_EQ(other_processes({4711}, container), 0);
  EXPECT_EQ(other_processes({4711, 4712}, container), 1);
  EXPECT_EQ(other_processes({}, container), 0);
  EXPECT_EQ(own_process({4711, 7}, host), 1u);
  EXPECT_EQ(own_process({4711}, host), std::nullopt);
  EXPECT_EQ(own_process({4711}, container), 0u);
  EXPECT_EQ(own_process({4711, 4712}, container), std::nullopt);
}

TEST(ThrottleNames, LeaveOutIdleAndChosenClocks) {
  EXPECT_THAT(throttle_names(0x1 | 0x2 | 0x10 | 0x100), IsEmpty());
  EXPECT_THAT(throttle_names(0x8 | 0x20 | 0x80),
              ElementsAre("hw_slowdown", "sw_thermal_slowdown", "hw_power_brake"));
}

TEST(GpuMeter, AddsUpItsIntervals) {
  auto nvml = fake();
  const auto device = nvml->devices()[0];
  GpuMeter meter(std::move(nvml), device);
  EXPECT_EQ(meter.readings().joules, std::nullopt);
  for (int interval = 0; interval < 2; ++interval) {
    meter.start();
    EXPECT_EQ(meter.stop(), 5.0);
  }
  const GpuReadings read = meter.readings();
  EXPECT_EQ(read.joules, 10.0);
  EXPECT_GT(read.seconds, 0);
  EXPECT_DOUBLE_EQ(*read.watts(), 10.0 / read.seconds);
  EXPECT_EQ(read.sm_clock_mhz, 1200.0);
  EXPECT_EQ(read.power_limit_watts, 500.0);
  EXPECT_EQ(read.at_power_cap, 1.0);
  EXPECT_THAT(read.throttling, ElementsAre("hw_thermal_slowdown", "sw_power_cap"));
  EXPECT_EQ(meter.process_bytes(), 700'000'000);
}

TEST(GpuMeter, IsEmptyWithoutCounters) {
  auto nvml = fake();
  const auto device = nvml->devices()[1];
  GpuMeter meter(std::move(nvml), device);
  GpuMeter cpu(at::kCPU);
  for (GpuMeter* each : {&meter, &cpu}) {
    each->start();
    EXPECT_EQ(each->stop(), std::nullopt);
    const GpuReadings read = each->readings();
    EXPECT_GE(read.seconds, 0);
    EXPECT_EQ(read.watts(), std::nullopt);
    EXPECT_EQ(read.sm_clock_mhz, std::nullopt);
    EXPECT_EQ(read.at_power_cap, std::nullopt);
    EXPECT_EQ(each->process_bytes(), std::nullopt);
  }
}
}  // namespace
}  // namespace optrush
