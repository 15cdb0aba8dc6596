#include "sentences.h"

#include <gmock/gmock.h>

#include "../split.h"
#include "claims.h"
#include "report/numbers/verdict.h"

namespace optrush::test {
namespace {
void ended(const Facts& f, const std::vector<std::string>& names, const std::string& how) {
  std::vector<std::string> expected;
  for (const Row& r : f.analysis().rows)
    if (r.status == ended_so(how) && r.started) expected.push_back(r.name);
  EXPECT_THAT(names, ::testing::ElementsAreArray(expected));
}
/// The table has a larger ratio of another problem, so the sentence names its rows.
void check_names_of_compared_rows(const Facts& f, const std::string& begin, const Measured& best) {
  bool larger = false;
  for (const Row* r : f.ok_rows([](const Row& one) { return one.base.speed.has_value(); }))
    larger = larger || (!r->base.differs.empty() && r->base.speed->value > best.value);
  EXPECT_EQ(begin.find("like") != std::string::npos, larger) << begin;
}
/// The verdict on the ratio to the base; "" for a claim.
std::string describe_unless_claimed(const Facts& f, const std::string& name) {
  const Ratio& speed = *f.row(name).base.speed;
  return speed.claim() ? "" : describe(verdict_of(speed));
}
const std::string kBegin = "(best so far(?:, like for like)?: |no (?:like-for-like )?rung was faster than ";
}  // namespace

Sentences of_open_questions(const Facts& f) {
  return {
      {R"((.*) (ran out of memory|crashed|did not end in time|broke the correctness gate|did not run|failed))",
       [&f](const Groups& g) { ended(f, split(g[1]), g[2]); }},
      {R"(only )" + kName + R"( succeeded, so there is nothing to compare; it trains ([\d,.]+) tokens/s)",
       [&f](const Groups& g) {
         const auto ok = f.ok_rows([](const Row& r) { return !r.samples.empty(); });
         ASSERT_EQ(ok.size(), 1U);
         EXPECT_EQ(ok.front()->name, g[1]);
       }},
      {"no two rungs with the same problem succeeded in the same round, so there is no claim",
       [&f](const Groups&) {
         for (const Row* r : f.ok_rows([](const Row& row) { return row.base.variant >= 0; }))
           EXPECT_TRUE(f.to_base(*r).rounds == 0 || !r->base.differs.empty() || r->same_as >= 0) << r->name;
       }},
      {"no rung trains as well as the base, so there is no claim",
       [&f](const Groups&) {
         bool worse = false;
         for (const Row* r : f.ok_rows([](const Row& row) { return row.base.variant >= 0; })) {
           if (f.to_base(*r).rounds == 0 || !r->base.differs.empty() || r->same_as >= 0) continue;
           EXPECT_TRUE(r->base.worse) << r->name;
           worse = true;
         }
         EXPECT_TRUE(worse);
       }},
      {kName + " trains " + kRatio + " as (fast) as " + kName,
       [&f](const Groups& g) {
         EXPECT_TRUE(f.to_base(f.row(g[1])).faster());
         EXPECT_EQ(f.row(g[1]).base.name, g[6]);
         is(g, 2, f.to_base(f.row(g[1])));
       }},
      {"no rung is shown to make training faster; " + kBegin + kName + R"( so far \(nearest: ))" + kName +
           ", " + kValue + " as fast as " + kName +
           R"( in (\d+) rounds?\)?(?:, (no difference.*|undecided; .*)|; (.*))?)",
       [&f](const Groups& g) {
         const Measured mine = f.ratio(f.row(g[3]), f.row(g[5]));
         is(g[4], mine.value, "the ratio");
         check_names_of_compared_rows(f, g[1], mine);
         for (const Row* r : f.ok_rows([](const Row& one) { return one.base.variant >= 0; }))
           if (r->base.differs.empty() && !r->base.worse) {
             EXPECT_FALSE(f.to_base(*r).faster()) << r->name;
           }
         EXPECT_EQ(!g[8].empty(), mine.rounds < 3) << "three rounds have decided what three rounds can";
         if (g[8].empty()) {
           EXPECT_EQ(g[7], describe_unless_claimed(f, g[3])) << g[0];
         } else {
           decides(f, g[8]);
         }
       }},
      {"no claim yet: a claim needs 3 rounds; " + kBegin + kName + R"( so far \(nearest: ))" + kName + ", " +
           kValue + " as fast as " + kName + R"( in (\d+) rounds?\)?; (.*))",
       [&f](const Groups& g) {
         const Measured mine = f.ratio(f.row(g[3]), f.row(g[5]));
         is(g[4], mine.value, "the ratio");
         check_names_of_compared_rows(f, g[1], mine);
         EXPECT_EQ(std::stoul(g[6]), mine.rounds);
         EXPECT_EQ(g[1].starts_with("best so far"), mine.value > 1);
         for (const Row* r : f.ok_rows([](const Row& one) { return one.base.variant >= 0; })) {
           EXPECT_FALSE(f.to_base(*r).interval() && f.to_previous(*r).interval() && r->group != "external")
               << r->name << " has a claim";
           if (r->base.differs.empty() && !r->base.worse && r->same_as < 0) {
             EXPECT_LE(f.to_base(*r).value, mine.value * (1 + 1e-9)) << r->name;
           }
         }
         decides(f, g[7]);
       }},
      {"no claim on (.*): (about .*)",
       [&f](const Groups& g) {
         size_t named = 0;
         for (const auto& part : split(g[1], "), ")) {
           std::smatch m;
           ASSERT_TRUE(
               fits(part, m, kName + R"( \()" + kValue + " as fast as " + kName + R"( in (\d+) rounds?\)?)"))
               << part;
           const Measured seen = f.ratio(f.row(m[1]), f.row(m[3]));
           is(m[2], seen.value, "the ratio");
           EXPECT_EQ(std::stoul(m[4]), seen.rounds);
           EXPECT_LT(seen.rounds, 3U);
           ++named;
         }
         EXPECT_EQ(named, f.ok_rows([&f](const Row& r) {
                             return r.same_as < 0 && r.base.variant >= 0 && f.to_base(r).rounds > 0 &&
                                    f.to_base(r).rounds < 3;
                           }).size());
         decides(f, g[2]);
       }},
      {R"((.*) trains? worse than ([A-Za-z +]+?)(?: \(\d\.\d+\))?[:,] .*)",
       [&f](const Groups& g) {
         for (const auto& part : split(g[1])) {
           std::smatch m;
           ASSERT_TRUE(fits(part, m, kName + R"((?: \(\d\.\d+\))?)")) << part;
           EXPECT_TRUE(f.row(m[1]).previous.worse) << part;
           EXPECT_EQ(f.row(m[1]).previous.name, g[2]);
         }
       }},
      {"nothing was measured",
       [&f](const Groups&) {
         EXPECT_TRUE(f.ok_rows([](const Row& r) { return !r.samples.empty(); }).empty());
       }},
  };
}
}  // namespace optrush::test
