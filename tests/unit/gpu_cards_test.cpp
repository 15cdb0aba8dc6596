// GPU cards for planning: names, nominal memory sizes, and the memory that each card reports.
#include "machine/gpu_cards.h"

#include <gmock/gmock.h>

#include "../support/error_of.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

double gib(const std::string& given) {
  return static_cast<double>(planned_gpu(given).memory_bytes) / (int64_t{1} << 30);
}

TEST(GpuCards, NameHasTheMemoryThatTheCardReports) {
  EXPECT_NEAR(gib("h100"), 79.1, 1e-6);
  EXPECT_NEAR(gib("H100-80"), 79.1, 1e-6);
  EXPECT_NEAR(gib("h200"), 139.72, 1e-6);
  EXPECT_NEAR(gib("a100-40"), 39.38, 1e-6);
  EXPECT_EQ(planned_gpu("h100").sm, "sm_90");
  EXPECT_EQ(planned_gpu("a100-80").sm, "sm_80");
  EXPECT_EQ(planned_gpu("l40s").sm, "sm_89");
  EXPECT_EQ(planned_gpu("rtx3090").sm, "sm_86");
  EXPECT_EQ(planned_gpu("b200").sm, "sm_100");
  EXPECT_EQ(planned_gpu("rtx5090").sm, "sm_120");
  for (const std::string& name : gpu_card_names()) EXPECT_GT(planned_gpu(name).memory_bytes, 14e9) << name;
}

TEST(GpuCards, WholeNumberIsTheNominalSizeOfACard) {
  EXPECT_EQ(planned_gpu("80").name, "H100 80GB");
  EXPECT_EQ(planned_gpu("141").name, "H200 141GB");
  EXPECT_EQ(planned_gpu("40").name, "A100 40GB");
  EXPECT_EQ(planned_gpu("24").name, "RTX 4090 24GB");
  EXPECT_EQ(planned_gpu("48").name, "L40S 48GB");
  EXPECT_NEAR(gib("2000"), 2000, 1e-9) << "no card has this size";
  EXPECT_EQ(planned_gpu("2000").sm, "sm_90");
}

TEST(GpuCards, OtherNumbersAreTakenAsGiven) {
  EXPECT_NEAR(gib("79.1"), 79.1, 1e-6);
  EXPECT_EQ(planned_gpu("80GB").memory_bytes, 80'000'000'000);
  EXPECT_EQ(planned_gpu("80 gib").memory_bytes, int64_t{80} << 30);
}

TEST(GpuCards, UnknownCardNamesTheNearest) {
  EXPECT_THAT(error_of([] { planned_gpu("h10"); }), HasSubstr("did you mean 'h100'?"));
  EXPECT_THAT(error_of([] { planned_gpu("a100-8O"); }), testing::is_error("unknown_name", "'a100-80'"));
  EXPECT_THAT(error_of([] { planned_gpu("voodoo"); }), HasSubstr("one of: 3090, 4090, "));
  EXPECT_THAT(error_of([] { planned_gpu("80TB"); }), HasSubstr("80GB or 80GiB"));
  for (const char* none : {"0", "-1", "nan", "1e30", ""}) EXPECT_THROW(planned_gpu(none), UsageError) << none;
}
}  // namespace
}  // namespace optrush::testing
