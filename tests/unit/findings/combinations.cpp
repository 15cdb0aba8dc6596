#include "sentences.h"

#include <gmock/gmock.h>

#include "../split.h"
#include "claims.h"

namespace optrush::test {
Sentences of_combinations(const Facts& f) {
  return {
      {"the full stack trains " + kRatio +
           " as (?:fast|many tokens/s) as the base(, but does not reach the loss)?",
       [&f](const Groups& g) {
         const auto full = f.ok_rows([](const Row& r) { return r.group == "full"; });
         ASSERT_EQ(full.size(), 1U);
         EXPECT_TRUE(f.to_base(*full.front()).claim());
         EXPECT_EQ(!g[4].empty(), f.misses(*full.front()));
         is(g, 1, f.to_base(*full.front()));
       }},
      {"in the full stack " + kName + " makes the largest (certain )?contribution: " + kRatio +
           R"((?: in tokens/s, not like for like \(.*\))?)",
       [&f](const Groups& g) {
         is(g, 3, f.worth(g[1]));
         best_contribution(f, g[1], g[2].empty());
       }},
      {"in the full stack no rung is shown to make training faster; " + kName + " costs most: " + kRatio +
           R"((?: in tokens/s, not like for like \(.*\))?)",
       [&f](const Groups& g) {
         is(g, 2, f.worth(g[1]));
         EXPECT_TRUE(f.worth(g[1]).slower());
         for (const std::string& other : f.ablated()) {
           EXPECT_FALSE(f.worth(other).faster()) << other;
           EXPECT_FALSE(f.worth(other).slower() && f.worth(other).value < f.worth(g[1]).value * (1 - 1e-9))
               << other;
         }
       }},
      {"no rung has a measurable effect in the full stack",
       [&f](const Groups&) {
         for (const std::string& name : f.ablated()) {
           EXPECT_TRUE(f.worth(name).interval()) << name;
           EXPECT_FALSE(f.worth(name).claim()) << name;
         }
       }},
      {"none of these rungs has a measurable effect in the full stack: (.*)",
       [&f](const Groups& g) {
         std::vector<std::string> known;
         for (const std::string& name : f.ablated()) {
           EXPECT_FALSE(f.worth(name).claim()) << name;
           if (f.worth(name).interval()) known.push_back(name);
         }
         EXPECT_THAT(split(g[1]), ::testing::UnorderedElementsAreArray(known));
       }},
      {kName + " is the fastest combination( with the base's problem)?(, as far as is certain)?: " + kRatio +
           " as fast as the base(.*)",
       [&f](const Groups& g) {
         const Measured mine = f.to_base(f.row(g[1]));
         EXPECT_TRUE(mine.faster());
         is(g, 4, mine);
         for (const Row* other : f.rivals()) {
           const Measured m = f.to_base(*other);
           if (m.rounds > 0 && m.value > mine.value * (1 + 1e-9)) {
             EXPECT_FALSE(m.faster()) << other->name;
             EXPECT_FALSE(g[3].empty()) << other->name << " may be faster";
           }
         }
       }},
      {"no combination( with the base's problem)? is (shown to be )?faster than the base; the nearest is " +
           kName + ": " + kRatio + " as fast as the base(?:, (.*))?",
       [&f](const Groups& g) {
         is(g, 4, f.to_base(f.row(g[3])));
         for (const Row* other : f.rivals()) {
           const Measured m = f.to_base(*other);
           EXPECT_FALSE(m.faster()) << other->name;
           if (g[2].empty() && !other->base.speed->same_run) {
             EXPECT_TRUE(m.slower()) << other->name;
           }
           if (m.interval()) {
             EXPECT_LE(m.value, f.to_base(f.row(g[3])).value * (1 + 1e-9)) << other->name;
           }
         }
       }},
      {"no combination solves the base's problem and trains as well, so none is called the fastest",
       [&f](const Groups&) {
         for (const Row* other : f.rivals()) EXPECT_FALSE(f.to_base(*other).interval()) << other->name;
       }},
  };
}
}  // namespace optrush::test
