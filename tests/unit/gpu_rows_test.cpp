// Rows of a GPU: the sustained rate, power, clock and power cap, and runs that are too short for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/analysis.h"
#include "analysis/quantities.h"
#include "base/temporary_folder.h"
#include "report/sections/document.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

Json product(const char* dtype, double flops, bool gpu = true) {
  return {{"dtype", dtype}, {"gpu", gpu}, {"shape", {8192, 8192, 8192}}, {"flops_per_second", flops}};
}

/// A report whose runs were on a GPU, with the share of the samples at the power cap by rung.
Analysis on_a_gpu(const std::map<std::string, double>& at_cap) {
  const TemporaryFolder folder;
  test::three_rungs().write(folder.path());
  Stored stored = load_report(folder.path());
  stored.context["peak"] = {
      {"device", "NVIDIA H200"},
      {"source", "table"},
      {"mfu_dtype", "bf16"},
      {"mfu_denominator", 989e12},
      {"sustained", {product("bf16", 650e12), product("bf16", 692e12), product("fp8", 1200e12)}}};
  for (StoredRun& run : stored.runs) {
    run.result.device = "NVIDIA H200";
    run.result.on_gpu = true;
    const auto share = at_cap.find(stored.variant(run.spec.variant).name);
    if (share == at_cap.end()) continue;
    run.result.gpu =
        GpuUse{.watts = 698, .sm_clock_mhz = 1605, .power_limit_watts = 700, .at_power_cap = share->second};
  }
  return analyze(std::move(stored));
}

Section throughput(const Analysis& a) { return throughput_section(a, families_of(a).front()); }

TEST(GpuRows, HaveTheMfuOfTheSustainedRateOfTheSameType) {
  const Analysis a = on_a_gpu({});
  const Row& base = a.rows.front();
  ASSERT_TRUE(base.mfu && base.mfu_sustained);
  EXPECT_NEAR(*base.mfu_sustained / *base.mfu, 989.0 / 692, 1e-9);
  EXPECT_EQ(number_of(quantity("mfu_sustained"), a, base), base.mfu_sustained);
  EXPECT_THAT(throughput(a).bullets, Contains(HasSubstr("\"Of sustained\" divides by 692 TFLOP/s")));
}

TEST(GpuRows, RowsOfACpuHaveNoSustainedMfu) {
  const TemporaryFolder folder;
  test::three_rungs().write(folder.path());
  Stored stored = load_report(folder.path());
  stored.context["peak"]["sustained"] = {product("fp32", 1e12, false), product("bf16", 1e12, false)};
  const Analysis a = analyze(std::move(stored));
  EXPECT_FALSE(a.rows.front().mfu_sustained);
  EXPECT_THAT(throughput(a).bullets, Each(Not(HasSubstr("sustained"))));
}

TEST(GpuRows, HavePowerAndClock) {
  const Analysis a = on_a_gpu({{"base", 1}});
  const auto of = [&](const char* name) { return number_of(quantity(name), a, a.rows.front()); };
  EXPECT_EQ(of("gpu_watts"), 698);
  EXPECT_EQ(of("sm_clock_mhz"), 1605);
  EXPECT_EQ(of("power_limit_watts"), 700);
  EXPECT_EQ(of("at_power_cap"), 1);
  const Table table = *throughput(a).table;
  EXPECT_THAT(table.rows.front(), AllOf(Contains("698 W"), Contains("1605 MHz"), Contains("100.0 %")));
}

TEST(GpuRows, ThePowerCapIsStatedOnce) {
  const auto said = [](const std::map<std::string, double>& at_cap) {
    std::vector<std::string> found = throughput(on_a_gpu(at_cap)).bullets;
    std::erase_if(found, [](const std::string& text) { return text.find("power cap") == std::string::npos; });
    return found;
  };
  std::map<std::string, double> all;
  for (const Row& row : on_a_gpu({}).rows) all[row.name] = 0.9;
  EXPECT_THAT(said(all), ::testing::ElementsAre(
                             "Every rung ran at the power cap of 700 W of the GPU for at least half of its "
                             "timed steps. Its rate is what the GPU does at that power."));
  all["base"] = 0.1;
  EXPECT_THAT(said(all), ::testing::ElementsAre(AllOf(HasSubstr("ran at the power cap of 700 W"),
                                                      Not(HasSubstr("base")), Not(HasSubstr("Every rung")))));
  EXPECT_THAT(said({{"base", 0.1}}), ::testing::IsEmpty());
  EXPECT_THAT(said({}), ::testing::IsEmpty());
}
}  // namespace
}  // namespace optrush
