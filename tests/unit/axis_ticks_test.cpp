#include "report/axis_ticks.h"

#include <gmock/gmock.h>

#include <cmath>

namespace optrush {
namespace {
using testing::ElementsAre;
using testing::Le;
using testing::SizeIs;

constexpr double kMiB = 1 << 20;

TEST(LogTicks, AreOneTwoAndFive) {
  EXPECT_THAT(log_ticks(3, 160), ElementsAre(2, 5, 10, 20, 50, 100, 200));
  EXPECT_THAT(log_ticks(1, 100), ElementsAre(1, 2, 5, 10, 20, 50, 100))
      << "nothing beyond what is a tick itself";
  EXPECT_THAT(log_ticks(7, 7), ElementsAre(5, 10));
}

TEST(LogTicks, OfManyDecadesArePowersOfTen) {
  const auto ticks = log_ticks(3e-7, 40);
  EXPECT_THAT(ticks, SizeIs(Le(9)));
  EXPECT_LE(ticks.front(), 3e-7);
  EXPECT_GE(ticks.back(), 40);
  for (const double tick : ticks) EXPECT_NEAR(std::log10(tick), std::round(std::log10(tick)), 1e-9);
  EXPECT_THAT(log_ticks(1e-20, 1e20), SizeIs(Le(9)));
}

TEST(ByteTicks, AreRoundInMebibytes) {
  EXPECT_THAT(byte_ticks(5 * kMiB), ElementsAre(0, kMiB, 2 * kMiB, 3 * kMiB, 4 * kMiB, 5 * kMiB));
  EXPECT_THAT(byte_ticks(700 * kMiB),
              ElementsAre(0, 128 * kMiB, 256 * kMiB, 384 * kMiB, 512 * kMiB, 640 * kMiB, 768 * kMiB));
  EXPECT_THAT(log_byte_ticks(5 * kMiB, 40 * kMiB),
              ElementsAre(4 * kMiB, 8 * kMiB, 16 * kMiB, 32 * kMiB, 64 * kMiB));
  const auto wide = log_byte_ticks(1, 1e12);
  EXPECT_THAT(wide, SizeIs(Le(9)));
  EXPECT_LE(wide.front(), 1);
  EXPECT_GE(wide.back(), 1e12);
}
}  // namespace
}  // namespace optrush
