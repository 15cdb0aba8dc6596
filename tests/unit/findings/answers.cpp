#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "../split.h"
#include "analysis/numbers/format.h"
#include "sentences.h"

namespace optrush::test {
void is(const std::string& text, double value, const std::string& what) {
  const size_t point = text.find('.');
  const double unit =
      point == std::string::npos ? 1 : std::pow(10, -static_cast<double>(text.size() - point - 1));
  EXPECT_NEAR(std::stod(text), value, 0.501 * unit) << what;
}

void is(const Facts&, const Groups& g, size_t at, const Measured& m) {
  is(g[at], m.value, "the ratio");
  EXPECT_TRUE(m.interval()) << "an interval of " << m.rounds << " rounds";
  if (g[at + 1].empty()) return;
  is(g[at + 1], m.low, "the low end");
  is(g[at + 2], m.high, "the high end");
  if (m.claim()) {
    const bool holds_1 = std::stod(g[at + 1]) <= 1 && std::stod(g[at + 2]) >= 1;
    EXPECT_FALSE(holds_1) << "the printed interval contains 1";
  }
}

void verdict(const Facts& f, const std::string& text, const Measured& m) {
  EXPECT_EQ(text.empty(), m.claim()) << text;
  if (std::smatch found; fits(text, found, R"(no difference above (\d+\.\d) %)")) {
    EXPECT_GE(std::stod(found[1]) / 100 + 1e-9, std::expm1(f.farthest(m)));
    EXPECT_LE(std::stod(found[1]), 5.0 + 1e-9);
  } else if (!text.empty()) {
    EXPECT_TRUE(f.undecided(m)) << text;
  }
}

void names(const Facts& f, std::vector<std::string> named, const std::string& list,
           const std::function<bool(const Row&)>& holds) {
  if (const size_t last = named.back().find(" and "); last != std::string::npos) {
    named.push_back(named.back().substr(last + 5));
    named[named.size() - 2].resize(last);
  }
  size_t expected = 0;
  for (const Row& r : f.analysis().rows) {
    if (!holds(r)) continue;
    ++expected;
    const std::string name = r.group == "without" ? r.name.substr(std::string("without ").size()) : r.name;
    if (list.find(" more") == std::string::npos) {
      EXPECT_THAT(named, ::testing::Contains(::testing::AnyOf(name, r.name))) << list;
    }
  }
  std::smatch m;
  const size_t rest = has(list, m, R"( and (\d+) more$)") ? std::stoul(m[1]) : 0;
  EXPECT_EQ(named.size() + rest, expected) << list;
}

namespace {
Status ended_so(const std::string& how) {
  static const std::map<std::string, Status> kEnds = {
      {"ran out of memory", Status::oom},       {"crashed", Status::crashed},
      {"did not end in time", Status::timeout}, {"broke the correctness gate", Status::broken},
      {"did not run", Status::skipped},         {"failed", Status::failed}};
  return kEnds.at(how);
}

void scales(const Facts& f, const Groups& g) {
  const ScalingSeries& told = f.series(g[6]);
  const Row &to = *f.most_ranks(told), &from = *f.analysis().row(told.points.front().variant);
  const Measured speed = f.ratio(to, from);
  is(f, g, 2, speed);
  EXPECT_EQ(std::stol(g[1]), to.devices);
  EXPECT_EQ(std::stol(g[5]), from.devices);
  EXPECT_EQ(g[7].empty(), to.hardware <= from.hardware) << "shared hardware has no efficiency";
  if (!g[7].empty()) is(g[7], 100 * speed.value * from.hardware / to.hardware, "the efficiency");
  verdict(f, g[8], speed);
  if (!g[9].empty()) is(g[9], 100 * *to.exposed_seconds / *to.step_seconds, "the exposed share");
}

/// "A (12.0 s, 80 steps) and B (...)"; the first ones first.
void reaches(const Facts& f, const std::string& there, const std::string& others) {
  double before = 0;
  size_t named = 0;
  for (const Groups& g : all_in(there, "(?:^|, | and )" + kName + R"( \(([^()]*)\))")) {
    const TimeToLoss& its = *f.row(g[1]).time_to_loss;
    EXPECT_EQ(g[2], text_of(its));
    EXPECT_GE(its.seconds.value_or(-1), before) << "in the order of time";
    before = its.seconds.value_or(-1);
    ++named;
  }
  for (const Groups& g : all_in(others, "(?:^|, | and )" + kName + R"( \((\d+\.\d+)\))")) {
    EXPECT_FALSE(f.row(g[1]).time_to_loss->seconds) << g[1];
    is(g[2], f.row(g[1]).time_to_loss->last, "the loss");
    ++named;
  }
  for (const Groups& g : all_in(there + others, R"( and (\d+) more)")) named += std::stoul(g[1]);
  EXPECT_EQ(named, f.timed().size());
}

void search_found(const Facts& f, const std::string& name) {
  EXPECT_TRUE(f.analysis().tried->answered);
  EXPECT_EQ(name, f.analysis().tried->best);
}

/// "A (1.02x as fast as base in 2 rounds)"
void seen(const Facts& f, const std::string& list) {
  const auto all = all_in(
      list, "(?:^|, | and )" + kName + R"( \()" + kValue + " as fast as " + kName + R"( in (\d+) rounds?\))");
  EXPECT_FALSE(all.empty()) << list;
  for (const Groups& g : all) {
    const Measured m = f.ratio(f.row(g[1]), f.row(g[3]));
    is(g[2], m.value, "the ratio");
    EXPECT_EQ(std::stoul(g[4]), m.rounds);
    EXPECT_LT(m.rounds, 3U);
  }
}
}  // namespace

Sentences of_answers(const Facts& f) {
  static const std::string
      kLoss = R"(a (?:training|validation) loss of (\d+(?:\.\d+)?))",
      kNeeds = R"((?:about [\d.]+ (?:s|min|h) more would allow a claim \(--resume --at-most \d+[smh]\)|)"
               R"(--resume --rounds 3 would allow a claim, in about [\d.]+ (?:s|min|h)))",
      kEnded = "(; its time ended.*)?";
  return {
      {R"((\d+) ranks train )" + kRatio +
           R"( as many tokens/s as (\d+) ranks? \((.*?)(?:, (\d+) % efficient)?\)(?:, (no difference.*?|undecided.*?))?(?:; exposed communication takes (\d+) % of the step)?)",
       [&f](const Groups& g) { scales(f, g); }},
      {"(.*) reach(?:es)? " + kLoss + "(?:; not in every round: (.*))?",
       [&f](const Groups& g) {
         if (g[1] != "no rung") reaches(f, g[1], g[3]);
       }},
      {"no rung reaches " + kLoss + "( in every round)?; the last (?:training|validation) losses are (.*)",
       [&f](const Groups& g) {
         EXPECT_EQ(!g[2].empty(), std::ranges::any_of(f.timed(), [](const Row* r) {
           return r->time_to_loss->in_some_rounds;
         }));
         reaches(f, "", g[3]);
       }},
      {"the runs are too short to show whether a rung reaches " + kLoss + ": .*",
       [&f](const Groups&) { EXPECT_TRUE(f.timed().empty()); }},
      {"the search found nothing that is shown to be faster than the base(; best so far: .*?)?" + kEnded,
       [&f](const Groups&) { search_found(f, "base"); }},
      {R"(the search found ([\w +]+?))" + kEnded, [&f](const Groups& g) { search_found(f, g[1]); }},
      {"the search has no answer yet: its time was enough for fewer than 3 rounds(?:; best so far: ([\\w "
       "+]+), " +
           kValue + R"( as fast as the base in (\d+) rounds?)?(; about .*)?)",
       [&f](const Groups& g) {
         EXPECT_FALSE(f.analysis().tried->answered);
         double most = 0;
         for (const TriedStack& each : f.analysis().tried->stages.front().stacks)
           most = std::max(most, each.speed.value_or(0));
         EXPECT_EQ(g[1].empty(), most == 0);
         if (most > 0) is(g[2], most, "the speed");
       }},
      {kName + " trains worse than " + kName +
           R"((?:: over the last third of equally many tokens its mean \w+ loss is (\d\.\d+) instead of (\d\.\d+))?)",
       [&f](const Groups& g) {
         ASSERT_TRUE(f.row(g[1]).previous.worse) << g[0];
         EXPECT_EQ(f.row(g[1]).previous.name, g[2]);
         if (!g[3].empty()) is(g[3], f.row(g[1]).previous.worse->loss, "the loss");
         if (!g[4].empty()) is(g[4], f.row(g[1]).previous.worse->other, "the other loss");
       }},
      {R"((.*) (ran out of memory|crashed|did not end in time|broke the correctness gate|did not run|failed))",
       [&f](const Groups& g) {
         names(f, split(without(g[1], R"( and \d+ more$)")), g[1],
               [&](const Row& r) { return !r.ok() && r.started && r.status == ended_so(g[2]); });
       }},
      {"(?:only " + kOneName + " succeeded: )?" + kName +
           R"( trains [\d,.]+ tokens/s to a training loss of .*)",
       [&f](const Groups& g) {
         EXPECT_EQ(f.ok_rows([](const Row& r) { return !r.samples.empty(); }).size(), 1U);
         EXPECT_TRUE(f.row(g[1]).ok());
       }},
      {"no rung that trains the base's problem as well succeeded in the same round, so there is no claim",
       [&f](const Groups&) {
         for (const Row* r : f.ok_rows([](const Row& row) { return row.base.variant >= 0; }))
           EXPECT_TRUE(f.to_base(*r).rounds == 0 || !r->base.differs.empty() || r->same_as >= 0 ||
                       r->base.worse)
               << r->name;
       }},
      {"no claim on speed yet: a claim needs 3 rounds; " + kNeeds + "(?:; nearest to a gain so far: (.*))?",
       [&f](const Groups& g) {
         if (!g[1].empty()) seen(f, g[1]);
       }},
      {"no claim on (.*): " + kNeeds, [&f](const Groups& g) { seen(f, g[1]); }},
      {"no combination is shown to be faster than the base",
       [&f](const Groups&) {
         for (const Row* r : f.rivals()) EXPECT_FALSE(f.to_base(*r).faster()) << r->name;
       }},
      {"no combination solves the base's problem and trains as well, so none is called the fastest",
       [&f](const Groups&) {
         for (const Row* r : f.rivals()) EXPECT_TRUE(f.to_base(*r).rounds == 0 || r->same_as >= 0) << r->name;
       }},
      {"nothing was measured",
       [&f](const Groups&) {
         EXPECT_TRUE(f.ok_rows([](const Row& r) { return !r.samples.empty(); }).empty());
       }},
  };
}
}  // namespace optrush::test
