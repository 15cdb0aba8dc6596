#include "sentences.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "../split.h"
#include "claims.h"

namespace optrush::test {
namespace {
void check_largest_gain(const Facts& f, const Groups& g) {
  const Row& mine = f.row(g[1]);
  EXPECT_EQ(g[6], f.analysis().row(mine.previous.variant)->name);
  is(g, 3, f.to_previous(mine));
  best_gain(f, mine, g[2].empty());
}

/// "A (1.10x [1.05, 1.15]), B (...)"
void check_each_gain(const Facts& f, const Groups& g) {
  size_t named = 0;
  for (const Groups& groups : all_in(g[1], kName + R"( \()" + kRatio + R"((, but it trains worse)?\))")) {
    ++named;
    EXPECT_TRUE(f.to_previous(f.row(groups[1])).faster());
    EXPECT_EQ(!groups[5].empty(), f.row(groups[1]).previous.worse.has_value());
    is(groups, 2, f.to_previous(f.row(groups[1])));
  }
  EXPECT_EQ(named == 1, g[2].ends_with("s")) << "the verb agrees";
  EXPECT_GT(named, 0U);
}

const Row& end_of_ladder(const Facts& f, const Groups& g) {
  if (g[1] == "whole ladder") return f.last_of_ladder();
  // With branches, no rung includes all others.
  const bool branches = std::ranges::any_of(f.analysis().variants, [](const Variant& variant) {
    return variant.group == "ladder" && variant.previous != variant.index - 1;
  });
  EXPECT_TRUE(branches || f.row(g[2]).variant != f.last_of_ladder().variant) << "that is the whole ladder";
  return f.row(g[2]);
}

void memory(const std::string& text, const Row& r, const Row& other) {
  std::smatch m;
  if (!has(text, m, R"( and takes (\d+) % (less|more) peak memory)")) return;
  const double change = *r.memory.allocated / *other.memory.allocated - 1;
  EXPECT_EQ(m[2] == "more", change > 0);
  is(m[1], 100 * std::abs(change), "the memory");
}
}  // namespace

Sentences of_ladders(const Facts& f) {
  return {
      {kName + R"( gives the largest (certain )?gain: )" + kRatio + " as fast as " + kName,
       [&f](const Groups& g) { check_largest_gain(f, g); }},
      {R"((.*\[.*\].*) (makes?) training faster(?:, too)?)",
       [&f](const Groups& g) { check_each_gain(f, g); }},
      {R"(no rung is shown to make training faster( without training worse)?( and to reach the loss)?)",
       [&f](const Groups& g) { no_gain(f, g[1], g[2]); }},
      {"the (whole ladder|ladder up to " + kName + ") trains " + kRatio + " as fast as ([a-z]+)(.*)",
       [&f](const Groups& g) {
         const Row& end = end_of_ladder(f, g);
         EXPECT_EQ(g[6], f.analysis().row(end.base.variant)->name);
         EXPECT_TRUE(f.to_base(end).claim());
         EXPECT_EQ(end.base.differs, "");
         is(g, 3, f.to_base(end));
         memory(g[7], end, *f.analysis().row(end.base.variant));
       }},
      {"the (whole ladder|ladder up to " + kName + R"() shows no certain change of speed \()" + kRatio +
           ", (.*?)\\)(.*)",
       [&f](const Groups& g) {
         const Row& end = end_of_ladder(f, g);
         is(g, 3, f.to_base(end));
         verdict(f, g[6], f.to_base(end));
       }},
      {"the (whole ladder|ladder up to " + kName + ") trains " + kRatio + " as many tokens/s as (.*)",
       [&f](const Groups& g) {
         const Row& end = end_of_ladder(f, g);
         EXPECT_NE(end.base.differs, "");
         is(g, 3, f.to_base(end));
       }},
      {kName + R"( costs (\d+(?:\.\d)?) % of the speed(?: and saves (\d+) % of the peak memory.*)?)",
       [&f](const Groups& g) {
         const Row& r = f.row(g[1]);
         EXPECT_TRUE(f.to_previous(r).slower());
         is(g[2], 100 * (1 - f.to_previous(r).value), "the cost");
         const double memory = *r.memory.allocated / *f.analysis().row(r.previous.variant)->memory.allocated;
         if (!g[3].empty()) is(g[3], 100 * (1 - memory), "the memory");
       }},
      {R"((.*) makes? (no difference above \d+\.\d %))",
       [&f](const Groups& g) {
         for (const auto& name : split(g[1])) verdict(f, g[2], f.to_previous(f.row(name)));
       }},
      {kName + R"( \()" + kRatio + R"(\): (undecided; .*))",
       [&f](const Groups& g) {
         is(g, 2, f.to_previous(f.row(g[1])));
         verdict(f, g[5], f.to_previous(f.row(g[1])));
       }},
      {kName + ", together with (.*), trains " + kRatio + " as fast as " + kName + "(?:, (.*))?",
       [&f](const Groups& g) {
         const Row& r = f.row(g[1]);
         EXPECT_EQ(split(g[2]), r.previous.between);
         EXPECT_EQ(g[6], f.analysis().row(r.previous.variant)->name);
         is(g, 3, f.to_previous(r));
         if (!g[7].empty()) verdict(f, g[7], f.to_previous(r));
         EXPECT_EQ(g[7].empty(), f.to_previous(r).claim());
       }},
      {kName + " trains " + kRatio + " as many tokens/s as " + kName + R"(, on another problem \((.*)\))",
       [&f](const Groups& g) {
         EXPECT_EQ(g[6], f.row(g[1]).previous.differs);
         EXPECT_NE(g[6], "");
         is(g, 2, f.ratio(f.row(g[1]), f.row(g[5])));
       }},
      {"the stack up to " + kName + " trains " + kRatio + " as (fast|many tokens/s) as " + kName +
           "(?: on .* ranks? instead of \\d+)?(?:, (.*))?",
       [&f](const Groups& g) {
         is(g, 2, f.ratio(f.row(g[1]), f.row(g[6])));
         EXPECT_EQ(g[7].empty(), f.to_base(f.row(g[1])).claim());
       }},
  };
}
}  // namespace optrush::test
