#include "sentences.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "claims.h"
#include "report/numbers/format.h"

namespace optrush::test {
namespace {
/// "X ends at 2.700" or "X reaches it only in some rounds", where X has the lowest loss.
void nearest(const Facts& f, const std::string& text, const std::vector<const Row*>& rows) {
  std::smatch m;
  ASSERT_TRUE(
      fits(text, m,
           kName + R"( (?:ends at (\d+\.\d+)(?:, and does not reach it)?|reaches it only in some rounds))"))
      << text;
  const TimeToLoss& its = *f.row(m[1]).time_to_loss;
  EXPECT_EQ(its.in_some_rounds, !m[2].matched);
  if (m[2].matched) is(m[2], its.last, "the loss");
  for (const Row* r : rows) EXPECT_GE(r->time_to_loss->last, its.last) << r->name;
}

void needs(const Row& r, const std::string& steps, const std::string& seconds) {
  EXPECT_EQ(std::stol(steps), *r.time_to_loss->steps);
  EXPECT_EQ(seconds, duration(*r.time_to_loss->seconds));
}

/// "X reaches a loss of 2.5 first, after 80 steps and 12.0 s, and Y is next, after ..."
void check_first_to_reach(const Facts& f, const Groups& g) {
  EXPECT_EQ(std::stod(g[3]), f.analysis().experiment.target_loss);
  std::vector<const Row*> there, others;
  for (const Row* r : f.timed()) (r->time_to_loss->seconds ? there : others).push_back(r);
  const auto seconds = [](const Row* r) { return *r->time_to_loss->seconds; };
  std::ranges::sort(there, {}, seconds);
  ASSERT_FALSE(there.empty());
  const Row& first = f.row(g[2]);
  EXPECT_EQ(*first.time_to_loss->seconds, seconds(there.front()));
  needs(first, g[5], g[6]);
  EXPECT_EQ(!g[1].empty(), there.size() == 1 && !others.empty());
  if (!g[7].empty()) {
    ASSERT_GT(there.size(), 1U);
    const Row& next = f.row(g[7]);
    EXPECT_EQ(*next.time_to_loss->seconds, seconds(there[1]));
    needs(next, g[8], g[9]);
    const double apart = std::max(first.time_to_loss->since_before, next.time_to_loss->since_before);
    EXPECT_EQ(!g[10].empty(), *next.time_to_loss->seconds - *first.time_to_loss->seconds < apart);
    if (!g[10].empty()) {
      EXPECT_EQ(g[10], duration(apart));
    }
  }
  ASSERT_EQ(g[13].empty(), others.empty());
  if (others.empty()) return;
  EXPECT_EQ(g[11].empty() ? 1U : std::stoul(g[11]), others.size());
  const bool sometimes =
      std::ranges::any_of(others, [](const Row* r) { return r->time_to_loss->in_some_rounds; });
  EXPECT_EQ(!g[12].empty(), others.size() > 1 && sometimes);
  nearest(f, g[13], others);
}
}  // namespace

Sentences of_target_losses(const Facts& f) {
  static const std::string kLoss = R"(a loss of (\d+(?:\.\d+)?))",
                           kEnds = R"((.* ends at \d+\.\d+.*|.* reaches it only in some rounds))",
                           kAfter = R"(, after (\d+) steps? and ([\d.]+ \S+(?: \d+ \S+)?))";
  return {
      {"(only )?" + kName + " reaches " + kLoss + "( first)?" + kAfter + "(?:, and " + kName + " is next" +
           kAfter +
           R"((?: \(the difference is less than the (.*) between two losses\))?)?(?:; (?:(\d+) rungs do not reach it( in every round)?; of these, )?)" +
           kEnds + ")?",
       [&f](const Groups& g) { check_first_to_reach(f, g); }},
      {"no rung reaches " + kLoss + "( in every round)?: " + kEnds +
           ", the nearest; train for more steps, or set a higher target_loss",
       [&f](const Groups& g) {
         EXPECT_EQ(std::stod(g[1]), f.analysis().experiment.target_loss);
         bool sometimes = false;
         for (const Row* r : f.timed()) {
           EXPECT_FALSE(r->time_to_loss->seconds) << r->name;
           sometimes = sometimes || r->time_to_loss->in_some_rounds;
         }
         EXPECT_EQ(!g[2].empty(), sometimes);
         nearest(f, g[3], f.timed());
       }},
      {"the runs are too short to show whether a rung reaches " + kLoss +
           ": the test is the mean of 10 training losses, and they have fewer steps",
       [&f](const Groups&) { EXPECT_TRUE(f.timed().empty()); }},
  };
}
}  // namespace optrush::test
