#include "sentences.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "claims.h"

namespace optrush::test {
namespace {
/// The stack in the headline's first clause.
const Row& stack_in_first_clause(const Facts& f) {
  std::smatch m;
  const std::string text = f.analysis().headline;
  EXPECT_TRUE(has(text, m, R"( (the full stack|the stack up to [A-Za-z]+|[A-Za-z]+) trains )")) << text;
  return f.stack(m[1]);
}

/// " with 16 % less memory, but trains worse", or nothing.
void rest_of_stack(const Facts& f, const std::string& text, const Row& r) {
  std::smatch m;
  ASSERT_TRUE(fits(text, m, R"((?: with (\d+(?:\.\d)?) % (less|more) memory)?(, but trains worse)?)"))
      << text;
  const double change = *r.memory.allocated / *f.analysis().row(r.base.variant)->memory.allocated - 1;
  EXPECT_EQ(m[1].matched, std::abs(change) >= 0.05);
  if (m[1].matched) {
    is(m[1], 100 * std::abs(change), "the memory");
    EXPECT_EQ(m[2] == "more", change > 0);
  }
  EXPECT_EQ(m[3].matched, r.base.worse.has_value());
}
}  // namespace

Sentences clauses(const Facts& f) {
  static const std::string kStack = R"((the full stack|the stack up to [A-Za-z]+|[A-Za-z]+))",
                           kPercent = R"((\d+(?:\.\d)?) %)";
  return {
      {kStack + " trains " + kValue + " as fast((?: with|, but).*)?",
       [&f](const Groups& g) {
         EXPECT_TRUE(f.to_base(f.stack(g[1])).faster());
         EXPECT_EQ(f.stack(g[1]).base.differs, "");
         is(g[2], f.to_base(f.stack(g[1])).value, "the speed");
         rest_of_stack(f, g[3], f.stack(g[1]));
       }},
      {kStack + " is " + kPercent + " slower than " + kName + "((?: with|, but).*)?",
       [&f](const Groups& g) {
         EXPECT_TRUE(f.to_base(f.stack(g[1])).slower());
         EXPECT_EQ(g[3] == "the base" ? "base" : g[3], f.stack(g[1]).base.name);
         is(g[2], 100 * (1 - f.to_base(f.stack(g[1])).value), "the cost");
         rest_of_stack(f, g[4], f.stack(g[1]));
       }},
      {kStack + " trains " + kValue + R"( as many tokens/s \(not like for like: (.*?)\)((?: with|, but).*)?)",
       [&f](const Groups& g) {
         EXPECT_TRUE(f.to_base(f.stack(g[1])).claim());
         EXPECT_EQ(g[3], f.stack(g[1]).base.differs);
         is(g[2], f.to_base(f.stack(g[1])).value, "the speed");
         rest_of_stack(f, g[4], f.stack(g[1]));
       }},
      {kName + " trains " + kValue + " as many tokens/s as " + kName + R"((?: with )" + kPercent +
           R"( (less|more) memory)? \((.*another (?:model|function or task).*)\))",
       [&f](const Groups& g) {
         const Row& r = f.row(g[1]);
         const Measured m = f.to_previous(r);
         EXPECT_TRUE(m.claim());
         is(g[2], m.value, "the speed");
         EXPECT_EQ(g[3] == "the base" ? "base" : g[3], r.previous.name);
         EXPECT_EQ(g[6], r.previous.differs);
         const double change =
             *r.memory.allocated / *f.analysis().row(r.previous.variant)->memory.allocated - 1;
         EXPECT_EQ(!g[4].empty(), std::abs(change) >= 0.05);
         if (g[4].empty()) return;
         is(g[4], 100 * std::abs(change), "the memory");
         EXPECT_EQ(g[5] == "more", change > 0);
       }},
      {R"(the stack up to )" + kName + R"( is the fastest \()" + kValue + R"(\))",
       [&f](const Groups& g) {
         const Row& fastest = f.row(g[1]);
         EXPECT_EQ(fastest.base.differs, "");
         EXPECT_TRUE(f.to_base(fastest).faster());
         is(g[2], f.to_base(fastest).value, "the speed");
         for (const Row* r : f.ladder()) {
           if (r->variant <= fastest.variant || r->base.variant != fastest.base.variant ||
               !r->base.differs.empty())
             continue;
           EXPECT_LE(f.to_base(*r).value, f.to_base(fastest).value + 1e-9) << r->name;
         }
       }},
      {kStack + " trains as fast as " + kName + R"(( with .*)? \((no difference above \d+\.\d %)\))",
       [&f](const Groups& g) {
         verdict(f, g[4], f.to_base(f.stack(g[1])));
         rest_of_stack(f, g[3], f.stack(g[1]));
       }},
      {kStack + " is not shown to be faster or slower than " + kName +
           R"((?: \(.* would (?:not )?decide it\))?(?:, and it trains( with .*))?)",
       [&f](const Groups& g) {
         EXPECT_TRUE(f.undecided(f.to_base(f.stack(g[1]))));
         rest_of_stack(f, g[3], f.stack(g[1]));
       }},
      {kName +
           R"( (gives the largest certain gain|brings most of it|brings all of it|gives the largest gain) \()" +
           kValue + R"(\)(?: and saves )" + kPercent + " of the memory)?",
       [&f](const Groups& g) {
         const Measured m = f.to_previous(f.row(g[1]));
         is(g[3], m.value, "the gain");
         best_gain(f, f.row(g[1]), g[2] != "gives the largest certain gain");
         if (!g[4].empty()) saves(f, g[4], f.row(g[1]));
         if (g[2].starts_with("gives")) return;
         const double whole = std::log(f.to_base(stack_in_first_clause(f)).value);
         if (g[2] == "brings all of it") {
           EXPECT_NEAR(std::log(m.value), whole, 0.01);
           return;
         }
         EXPECT_LT(std::log(m.value), whole);
         double possible = 0;
         for (const Row* r :
              f.ok_rows([](const Row& r) { return r.group == "ladder" && r.previous.variant >= 0; }))
           if (f.to_previous(*r).rounds > 0) possible += std::max(0.0, std::log(f.to_previous(*r).value));
         EXPECT_GE(std::log(m.value), possible / 2 * (1 - 1e-9));
       }},
      {"no rung is shown to make training faster( without training worse)?( and to reach the loss)?",
       [&f](const Groups& g) { no_gain(f, g[1], g[2]); }},
      {kName + " costs " + kPercent + " of the speed(?: and saves " + kPercent + " of the memory)?",
       [&f](const Groups& g) {
         const Row& r = f.row(g[1]);
         EXPECT_TRUE(f.to_previous(r).slower());
         EXPECT_EQ(r.previous.differs, "");
         is(g[2], 100 * (1 - f.to_previous(r).value), "the cost");
         saves(f, g[3], r);
       }},
      {kName + " costs " + kPercent + " of the speed of " + kName,
       [&f](const Groups& g) {
         is(g[2], 100 * (1 - f.ratio(f.row(g[1]), f.row(g[3])).value), "the cost");
         slower_on_as_many(f, f.row(g[1]), f.row(g[3]));
       }},
      {R"((\d+) ranks train )" + kValue +
           R"( as many tokens/s as (\d+) ranks? \((.*), (\d+) % efficient\)(?:, (.*))?)",
       [&f](const Groups& g) {
         const ScalingSeries& told = f.series(g[4]);
         const Measured speed = f.ratio(*f.most_ranks(told), *f.analysis().row(told.points.front().variant));
         is(g[2], speed.value, "the speed");
         scales(f, told, g[1], g[3], g[5], speed);
         EXPECT_EQ(g[6].empty(), speed.claim());
         if (g[6] == "undecided") {
           EXPECT_TRUE(f.undecided(speed));
         } else if (!g[6].empty()) {
           verdict(f, g[6], speed);
         }
       }},
      {"the full stack does not reach it",
       [&f](const Groups&) { EXPECT_TRUE(f.misses(f.stack("the full stack"))); }},
      {kName + " costs " + kPercent + " of its speed(?: and saves " + kPercent + " of its memory)?",
       [&f](const Groups& g) {
         EXPECT_TRUE(f.worth(g[1]).slower());
         is(g[2], 100 * (1 - f.worth(g[1]).value), "the cost");
       }},
      {R"((\d+) more rungs? cost speed)",
       [&f](const Groups& g) {
         const auto slower = [&f](const Row* r) { return f.to_previous(*r).slower(); };
         EXPECT_EQ(std::stol(g[1]) + 2, std::ranges::count_if(f.ladder(), slower));
       }},
      {kName + " saves " + kPercent + " of the memory",
       [&f](const Groups& g) {
         const Measured m = f.to_previous(f.row(g[1]));
         EXPECT_FALSE(m.slower() || f.undecided(m)) << "it may cost speed";
         EXPECT_TRUE(m.interval());
         saves(f, g[2], f.row(g[1]));
       }},
      {R"((.*?) (?:is|are) undecided(?: \(.* would (?:not )?decide it\))?)",
       [&f](const Groups& g) {
         const auto rungs = f.ladder();
         names(f, g[1], [&](const Row& r) {
           return std::ranges::find(rungs, &r) != rungs.end() && f.undecided(f.to_previous(r));
         });
       }},
      {kName + R"( makes the largest (certain )?contribution to it \()" + kValue +
           R"((?:, not like for like)?\))",
       [&f](const Groups& g) {
         is(g[3], f.worth(g[1]).value, "its worth");
         best_contribution(f, g[1], g[2].empty());
       }},
      {"(.*?) trains? worse",
       [&f](const Groups& g) {
         names(f, g[1], [](const Row& r) { return r.ok() && r.previous.worse && r.group == "ladder"; });
       }},
      {R"((.*?) (ran out of memory|crashed|did not end in time|broke the correctness gate|did not run|failed))",
       [&f](const Groups& g) {
         names(f, g[1], [&](const Row& r) { return !r.ok() && r.started && r.status == ended_so(g[2]); });
       }},
  };
}
}  // namespace optrush::test
