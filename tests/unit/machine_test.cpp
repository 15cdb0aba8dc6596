#include "measure/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build_info.h"
#include "measure/gpus.h"
#include "measure/matmul_peak.h"
#include "worker/device.h"

namespace optrush {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PublishedPeak, IsTheDenseFigureOfTheExactName) {
  EXPECT_EQ(published_bf16_peak("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(published_bf16_peak("NVIDIA H100 80GB HBM3"), 989e12);
  EXPECT_EQ(published_bf16_peak("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(published_bf16_peak("NVIDIA H100 NVL"), 835e12);
  EXPECT_EQ(published_bf16_peak("NVIDIA H200"), 989e12);
  EXPECT_EQ(published_bf16_peak("NVIDIA B200"), 2250e12);
  EXPECT_EQ(published_bf16_peak("NVIDIA GeForce RTX 4090"), 165e12);
  EXPECT_EQ(published_bf16_peak("NVIDIA GeForce RTX 3090"), 71e12);
}

TEST(PublishedPeak, IsNeverGuessed) {
  for (const char* name :
       {"", "NVIDIA H100", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H200 NVL", "nvidia h200",
        "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", " NVIDIA B200"})
    EXPECT_EQ(published_bf16_peak(name), std::nullopt) << name;
}

CpuInfo cpu_with(int64_t threads, std::vector<std::string> isa) {
  CpuInfo cpu;
  cpu.threads = threads;
  cpu.isa = std::move(isa);
  return cpu;
}

TEST(MostFlops, IsAboveReachableAndBelowImpossibleRates) {
  const CpuInfo tiles = cpu_with(2, {"avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"});
  EXPECT_GT(most_flops(tiles, at::kFloat), 233e9);  // measured
  EXPECT_GT(most_flops(tiles, at::kBFloat16), 1.3e12);
  const CpuInfo server = cpu_with(256, {"avx2", "avx512f", "amx_tile", "amx_bf16"});
  EXPECT_GT(most_flops(server, at::kBFloat16), 128 * 3.5e9 * 2048);  // the manufacturer's figure
  constexpr double kBroken = 1e17;
  for (const auto& isa : std::vector<std::vector<std::string>>{
           {"sse4_2"}, {"avx"}, {"avx2"}, {"avx512f"}, {"avx512f", "amx_tile"}, {"asimd"}})
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
      EXPECT_LT(most_flops(cpu_with(256, isa), type), kBroken) << isa.front();
}

TEST(MostFlops, FollowsTheWidthOfTheTypeAndTheNumberOfProcessors) {
  const CpuInfo one = cpu_with(1, {"avx2"}), four = cpu_with(4, {"avx2"});
  EXPECT_EQ(most_flops(four, at::kFloat), 4 * most_flops(one, at::kFloat));
  EXPECT_EQ(most_flops(one, at::kDouble) * 2, most_flops(one, at::kFloat));
  EXPECT_EQ(most_flops(one, at::kHalf), 2 * most_flops(one, at::kFloat));
}

TEST(MostFlops, IsUnknownIfTheWidthIsUnknown) {
  for (const char* isa : {"sve", "sme", "rvv"})
    EXPECT_TRUE(std::isinf(most_flops(cpu_with(8, {isa}), at::kFloat))) << isa;
}

TEST(MostFlops, AnImpossibleTimingDoesNotCount) {
  const double flops = 2.0 * 256 * 256 * 256, least = flops / most_flops(cpu_with(2, {"avx2"}), at::kFloat);
  const double honest = flops / 100e9, better = flops / 120e9, impossible = flops / 1e17;
  EXPECT_EQ(shortest_possible(0, impossible, least), 0);
  EXPECT_EQ(shortest_possible(0, 0, least), 0);
  EXPECT_EQ(shortest_possible(0, honest, least), honest);
  EXPECT_EQ(shortest_possible(honest, better, least), better);
  EXPECT_EQ(shortest_possible(better, honest, least), better);
  EXPECT_EQ(shortest_possible(better, impossible, least), better);
  EXPECT_EQ(shortest_possible(0, 0, 0), 0);  // the clock stands still and no limit is known
}

CpuInfo quiet_cpu(double busy = 0) {
  CpuInfo cpu;
  cpu.busy = busy;
  cpu.threads = cpu.cores = 8;
  cpu.governor = "performance";
  return cpu;
}

TEST(MachineWarnings, AQuietMachineHasNone) {
  GpuInfo gpu;
  gpu.name = "NVIDIA H200";
  EXPECT_THAT(machine_warnings(quiet_cpu(0.7), {gpu}, "580.65.06"), IsEmpty());
}

TEST(MachineWarnings, ABusyMachine) {
  EXPECT_THAT(machine_warnings(quiet_cpu(2.25), {}, ""),
              ElementsAre(HasSubstr("other programs use 2.2 of 8")));
}

TEST(MachineWarnings, AClockHeldLowByTheGovernor) {
  CpuInfo cpu = quiet_cpu();
  cpu.governor = "powersave";
  cpu.governor_driver = "acpi-cpufreq";
  EXPECT_THAT(machine_warnings(cpu, {}, ""), ElementsAre(HasSubstr("powersave")));
  cpu.governor_driver = "intel_pstate";
  EXPECT_THAT(machine_warnings(cpu, {}, ""), IsEmpty());
}

TEST(MachineWarnings, AQuotaBelowTheProcessors) {
  CpuInfo cpu = quiet_cpu();
  cpu.quota = 1.5;
  EXPECT_THAT(machine_warnings(cpu, {}, ""), ElementsAre(HasSubstr("1.5 of 8")));
}

TEST(MachineWarnings, AmxThatCannotBeUsed) {
  CpuInfo cpu = quiet_cpu();
  cpu.broken_amx = true;
  EXPECT_THAT(machine_warnings(cpu, {}, ""), ElementsAre(HasSubstr("AMX")));
}

TEST(MachineWarnings, AGpuThatIsSharedAndThrottled) {
  GpuInfo gpu;
  gpu.name = "NVIDIA H200";
  gpu.throttling = {"sw_power_cap"};
  gpu.other_processes = 1;
  EXPECT_THAT(machine_warnings(quiet_cpu(), {gpu}, "580.65.06"),
              ElementsAre("GPU 0 (NVIDIA H200) lowers its clock: sw_power_cap",
                          "GPU 0 (NVIDIA H200) is shared with 1 other process"));
}

TEST(MachineWarnings, ADriverTooOldForThisLibTorch) {
  const bool cuda13 = std::string_view(OPTRUSH_CUDA_VERSION).starts_with("13");
  EXPECT_EQ(machine_warnings(quiet_cpu(), {}, "570.12.34").size(), cuda13 ? 1u : 0u);
}

TEST(MatmulPeak, CoversEveryDtypeWithinItsTime) {
  const auto peaks = measure_matmul_peak(at::kCPU, 0.2);
  ASSERT_EQ(peaks.size(), 4u);
  for (const auto& [dtype, flops] : peaks) {
    EXPECT_GT(flops, 1e6) << dtype;
    EXPECT_LT(flops, 1e16) << dtype;
  }
}

TEST(Bandwidth, IsPlausible) {
  for (const auto& [operation, rate] : measure_bandwidths(at::kCPU, 48 << 20, 0.05)) {
    EXPECT_GT(rate, 1e8) << operation;
    EXPECT_LT(rate, 1e14) << operation;
  }
}

TEST(PythonForCompiling, RequiresTheTorchOfThisBuildAndHeadersForAGpu) {
  PythonTools python{.path = "/x/python", .version = "3.12.1", .torch = OPTRUSH_TORCH_VERSION "+cu130"};
  EXPECT_EQ(no_python(python, /*for_gpu=*/false), "");
  EXPECT_THAT(no_python(python, /*for_gpu=*/true),
              ::testing::AllOf(HasSubstr("Python.h"), HasSubstr("/x/python"), HasSubstr("python3-dev")));
  python.headers = true;
  EXPECT_EQ(no_python(python, /*for_gpu=*/true), "");
  python.torch = "2.1.0";
  EXPECT_THAT(no_python(python, /*for_gpu=*/false), HasSubstr("torch 2.1.0 in /x/python is not the"));
}

TEST(LoadCuda, FailureHasAReason) {
  const CudaSupport& cuda = load_cuda();
  EXPECT_EQ(cuda.available, cuda.reason.empty());
  EXPECT_EQ(&load_cuda(), &cuda);
}
}  // namespace
}  // namespace optrush
