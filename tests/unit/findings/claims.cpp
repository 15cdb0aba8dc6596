#include "claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace optrush::test {
void is(const std::string& text, double value, const std::string& what) {
  const size_t point = text.find('.');
  const double unit =
      point == std::string::npos ? 1 : std::pow(10, -static_cast<double>(text.size() - point - 1));
  EXPECT_NEAR(std::stod(text), value, 0.501 * unit) << what;
}

void is(const Groups& g, size_t at, const Measured& m) {
  is(g[at], m.value, "the ratio");
  EXPECT_TRUE(m.interval()) << "an interval of " << m.rounds << " rounds";
  is(g[at + 1], m.low, "the low end");
  is(g[at + 2], m.high, "the high end");
  if (m.claim()) {
    const bool holds_1 = std::stod(g[at + 1]) <= 1 && std::stod(g[at + 2]) >= 1;
    EXPECT_FALSE(holds_1) << "the printed interval contains 1";
  }
}

void names(const Facts& f, const std::string& text, const std::function<bool(const Row&)>& holds) {
  std::vector<std::string> expected;
  for (const Row& r : f.analysis().rows)
    if (holds(r)) expected.push_back(r.name);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(text, expected.size() > 2    ? std::to_string(expected.size()) + " rungs"
                  : expected.size() == 2 ? expected[0] + " and " + expected[1]
                                         : expected[0]);
}

void verdict(const Facts& f, const std::string& text, const Measured& m) {
  ASSERT_TRUE(m.interval());
  EXPECT_FALSE(m.claim());
  if (std::smatch found; fits(text, found, R"(no difference above (\d+\.\d) %)")) {
    EXPECT_GE(std::stod(found[1]) / 100 + 1e-9, std::expm1(f.farthest(m)));
    EXPECT_LE(std::stod(found[1]), 5.0 + 1e-9);
  } else {
    EXPECT_TRUE(text.starts_with("undecided; ") && text.ends_with(" decide it")) << text;
    EXPECT_TRUE(f.undecided(m));
  }
}

void saves(const Facts& f, const std::string& percent, const Row& r) {
  const double memory = *r.memory.allocated / *f.analysis().row(r.previous.variant)->memory.allocated;
  EXPECT_EQ(percent.empty(), memory > 0.95);
  if (!percent.empty()) is(percent, 100 * (1 - memory), "the memory");
}

void best_gain(const Facts& f, const Row& mine, bool most) {
  const Measured m = f.to_previous(mine);
  EXPECT_TRUE(m.faster());
  EXPECT_EQ(mine.previous.differs, "");
  for (const Row* other : f.ladder()) {
    if (other->previous.worse || f.misses(*other) || f.to_previous(*other).value <= m.value * (1 + 1e-9))
      continue;
    EXPECT_FALSE(f.to_previous(*other).faster()) << other->name << " gains more";
    if (f.to_previous(*other).rounds > 0) {
      EXPECT_FALSE(most) << other->name << " may gain more";
    }
  }
}

void best_contribution(const Facts& f, const std::string& name, bool most) {
  const Measured mine = f.worth(name);
  EXPECT_TRUE(mine.faster());
  for (const std::string& other : f.ablated()) {
    const bool more = f.worth(other).rounds > 0 && f.worth(other).value > mine.value * (1 + 1e-9);
    EXPECT_FALSE(more && (most || f.worth(other).claim())) << other << " is worth more";
  }
}

void no_gain(const Facts& f, const std::string& worse, const std::string& loss) {
  bool any_worse = false, any_misses = false;
  for (const Row* r : f.ladder()) {
    if (!f.to_previous(*r).faster()) continue;
    EXPECT_TRUE(r->previous.worse || f.misses(*r)) << r->name;
    any_worse = any_worse || r->previous.worse;
    any_misses = any_misses || f.misses(*r);
  }
  EXPECT_EQ(!worse.empty(), any_worse);
  EXPECT_EQ(!loss.empty(), any_misses);
}

void decides(const Facts& f, const std::string& text) {
  if (f.analysis().experiment.until) {
    EXPECT_TRUE(
        fits(text, R"(about [\d.]+ (s|min|h) more would allow a claim \(--resume --at-most \d+[smh]\))"))
        << text;
  } else {
    EXPECT_TRUE(fits(text, R"(--resume --rounds 3 would allow a claim, in about [\d.]+ (s|min|h))")) << text;
  }
}

void scales(const Facts& f, const ScalingSeries& told, const std::string& ranks, const std::string& fewest,
            const std::string& efficient, const Measured& speed) {
  const Row &to = *f.most_ranks(told), &from = *f.analysis().row(told.points.front().variant);
  EXPECT_EQ(std::stol(ranks), to.devices);
  EXPECT_EQ(std::stol(fewest), from.devices);
  EXPECT_LT(from.devices, to.devices);
  is(efficient, 100 * speed.value * from.hardware / to.hardware, "the efficiency");
  const auto batch = [&f](const Row& r) {
    return f.analysis().plans[static_cast<size_t>(r.variant)]->problem.global_batch;
  };
  EXPECT_EQ(told.kind == Scaling::weak, batch(to) > batch(from));
  for (const ScalingSeries& other : f.analysis().scaling) {
    const Row* its = f.most_ranks(other);
    if (other.kind == told.kind && its != nullptr) {
      EXPECT_LE(f.ratio(*its, *f.analysis().row(other.points.front().variant)).value,
                speed.value * (1 + 1e-9))
          << other.title();
    }
  }
}

void slower_on_as_many(const Facts& f, const Row& slow, const Row& fast) {
  EXPECT_EQ(slow.devices, fast.devices);
  EXPECT_TRUE(f.ratio(slow, fast).slower());
  EXPECT_EQ(f.analysis().plans[static_cast<size_t>(slow.variant)]->problem.global_batch,
            f.analysis().plans[static_cast<size_t>(fast.variant)]->problem.global_batch);
}

Status ended_so(const std::string& how) {
  static const std::map<std::string, Status> kEnds = {
      {"ran out of memory", Status::oom},       {"crashed", Status::crashed},
      {"did not end in time", Status::timeout}, {"broke the correctness gate", Status::broken},
      {"did not run", Status::skipped},         {"failed", Status::failed}};
  return kEnds.at(how);
}
}  // namespace optrush::test
