#include "sentences.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "claims.h"

namespace optrush::test {
Sentences of_scalings(const Facts& f) {
  return {
      {R"((\d+) ranks train )" + kRatio +
           R"( as many tokens/s as (\d+) ranks? \((.*), (\d+) % efficient\)(?:, (.*?))?(?:; exposed communication takes (\d+) % of the step)?)",
       [&f](const Groups& g) {
         const ScalingSeries& told = f.series(g[6]);
         const Row &to = *f.most_ranks(told), &from = *f.analysis().row(told.points.front().variant);
         const Measured speed = f.ratio(to, from);
         is(g, 2, speed);
         scales(f, told, g[1], g[5], g[7], speed);
         EXPECT_EQ(g[8].empty(), speed.claim());
         if (!g[8].empty()) verdict(f, g[8], speed);
         EXPECT_EQ(g[9].empty(), !to.exposed_seconds);
         if (!g[9].empty()) is(g[9], 100 * *to.exposed_seconds / *to.step_seconds, "the exposed share");
       }},
      {"on the same number of ranks, " + kName + " trains " + kRatio + " as fast as " + kName,
       [&f](const Groups& g) {
         is(g, 2, f.ratio(f.row(g[1]), f.row(g[5])));
         slower_on_as_many(f, f.row(g[1]), f.row(g[5]));
       }},
      {kName + " trains " + kRatio + " as fast as " + kName +
           R"(, the fastest other program( with enough rounds)?( \(whose losses could not be compared\))?(?: on \d+ ranks? instead of \d+)?(?:, (.*))?)",
       [&f](const Groups& g) {
         const Row& other = f.row(g[5]);
         EXPECT_TRUE(other.external && !f.row(g[1]).external);
         EXPECT_EQ(g[7].empty(), other.checked);
         const Measured speed = f.ratio(f.row(g[1]), other);
         is(g, 2, speed);
         EXPECT_EQ(g[8].empty(), speed.claim());
         if (!g[8].empty()) verdict(f, g[8], speed);
         const auto& programs = f.analysis().programs;
         const auto told = std::ranges::find(programs, other.variant, &OtherProgram::variant);
         ASSERT_NE(told, programs.end());
         bool faster = false;  // with too few rounds for a claim
         for (const OtherProgram& program : programs) {
           const auto& ratio = program.comparison.speed;
           if (!ratio || ratio->value >= told->comparison.speed->value) continue;
           faster = true;
           EXPECT_FALSE(ratio->interval);
         }
         EXPECT_EQ(faster, !g[6].empty());
       }},
  };
}
}  // namespace optrush::test
