// The sentences above a comparison of reports agree with its table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/compare.h"
#include "analysis/numbers/format.h"
#include "analysis/numbers/verdict.h"
#include "base/temporary_folder.h"
#include "findings/patterns.h"
#include "random_report.h"
#include "report/claims/claims.h"
#include "split.h"

namespace optrush {
namespace {
using test::Dice;
using test::fits;
using test::split;
using Cell = ComparedReports::Cell;

/// Reads the sentence about one report with a pattern and compares it with the table.
class Reader {
 public:
  Reader(const ComparedReports& compared, size_t report) : compared_(compared), report_(report) {
    for (const auto& line : compared.lines) {
      const auto &first = line.cells.front(), &cell = line.cells[report];
      if (first && cell && cell->speed && cell->differs.empty()) shared_[line.rung] = &*cell;
    }
  }

  void read(const std::string& sentence) {
    SCOPED_TRACE(sentence);
    std::vector<std::string> parts = split(sentence, "; ");
    const std::string name = compared_.reports[report_].name, first = compared_.reports.front().name;
    if (parts.front() == name + " and " + first + " have no successful rung of the same problem in common") {
      EXPECT_TRUE(shared_.empty());
      return;
    }
    const std::string against = "Against " + first + ", " + name + " is ";
    if (parts.front().starts_with(against))
      for (const auto& part : split(parts.front().substr(against.size()), " and ")) claims(part);
    else
      EXPECT_EQ(parts.front(), name + " is not shown to be faster or slower than " + first);
    for (size_t i = 1; i < parts.size(); ++i) rest(parts[i]);
    EXPECT_EQ(faster_, count(Outcome::faster));
    EXPECT_EQ(slower_, count(Outcome::slower));
    EXPECT_EQ(alike_, count(Outcome::alike));
    EXPECT_EQ(undecided_, count(Outcome::undecided));
    EXPECT_EQ(too_few_, count(Outcome::too_few));
    EXPECT_EQ(ends_, expected_ends());
    double most = 0;
    for (const auto& [rung, cell] : shared_)
      most = std::max(most, std::abs(cell->memory_ratio.value_or(1) - 1));
    EXPECT_NEAR(memory_, most >= 0.05 ? most : 0, 0.0051);
  }

 private:
  int64_t count(Outcome outcome) const {
    return std::ranges::count_if(
        shared_, [&](const auto& one) { return verdict_of(*one.second->speed).outcome == outcome; });
  }

  /// "faster in 3 of 5 shared rungs (alfa 1.50x, bravo 1.20x, 1 more)"; the largest differences first.
  void claims(const std::string& text) {
    std::smatch m;
    ASSERT_TRUE(fits(text, m, R"((faster|slower) in (\d+) of (\d+) shared rungs? \((.*)\))")) << text;
    const bool faster = m[1] == "faster";
    (faster ? faster_ : slower_) = std::stol(m[2]);
    EXPECT_EQ(std::stol(m[3]), std::ssize(shared_));
    EXPECT_EQ(named(m[4], &Cell::speed, faster), std::stol(m[2]));
  }

  /// "alfa 1.50x, bravo 1.20x, 1 more"; the number of rungs.
  int64_t named(const std::string& list, std::optional<Ratio> Cell::*ratio, bool faster) {
    double least = 100;  // a logarithm
    const auto all = test::all_in(list, R"(([a-z +]+) (\d+\.\d+)x)");
    for (const auto& groups : all) {
      const auto rung = shared_.find(test::without(groups[1], "^ +"));
      if (rung == shared_.end()) {
        ADD_FAILURE() << groups[1];
        continue;
      }
      const Ratio& told = *((*rung->second).*ratio);
      EXPECT_EQ(groups[2] + "x", ratio_only(told.value));
      EXPECT_TRUE(told.claim() && (told.value > 1) == faster);
      EXPECT_LE(std::abs(std::log(told.value)), least * (1 + 1e-9));
      least = std::abs(std::log(told.value));
    }
    std::smatch m;
    return std::ssize(all) + (fits(list, m, R"(.*, (\d+) more)") ? std::stol(m[1]) : 0);
  }

  void rest(const std::string& text) {
    const auto* count = R"((no difference|undecided|too few rounds) in (\d+) rungs?)";
    const auto* memory = R"(([a-z +]+) takes (\d+)(?:\.\d)? % (less|more) memory)";
    const auto* end =
        R"(([a-z +]+) (ran out of memory|crashed|did not end in time|broke the correctness gate|failed) in (\w+))";
    std::smatch m;
    if (fits(text, m, "(faster|slower) over the base: (.*)")) {
      const bool faster = m[1] == "faster";
      const auto outcome = faster ? Outcome::faster : Outcome::slower;
      EXPECT_EQ(named(m[2], &Cell::over_base, faster), std::ranges::count_if(shared_, [&](const auto& one) {
                  const auto& [speed, over_base] = std::tie(one.second->speed, one.second->over_base);
                  return over_base && verdict_of(*over_base).outcome == outcome &&
                         verdict_of(*speed).outcome != outcome;
                }));
    } else if (fits(text, m, count)) {
      (m[1] == "no difference" ? alike_ : m[1] == "undecided" ? undecided_ : too_few_) = std::stol(m[2]);
    } else if (fits(text, m, memory)) {
      const double ratio = shared_.at(m[1])->memory_ratio.value_or(1);
      EXPECT_EQ(m[3] == "more", ratio > 1);
      memory_ = std::stod(m[2]) / 100;
      EXPECT_NEAR(memory_, std::abs(ratio - 1), 0.0051);
    } else if (fits(text, m, end)) {
      EXPECT_EQ(m[3], compared_.reports[report_].name);
      ends_.push_back(m[1].str() + " " + m[2].str());
    } else {
      ADD_FAILURE() << "no pattern matches: " << text;
    }
  }

  std::vector<std::string> expected_ends() const {
    static const std::map<Status, std::string> kEnds = {{Status::oom, "ran out of memory"},
                                                        {Status::crashed, "crashed"},
                                                        {Status::timeout, "did not end in time"},
                                                        {Status::broken, "broke the correctness gate"},
                                                        {Status::failed, "failed"}};
    std::vector<std::string> ends;
    for (const auto& line : compared_.lines) {
      const auto &first = line.cells.front(), &cell = line.cells[report_];
      if (first && cell && first->status == Status::ok && kEnds.contains(cell->status))
        ends.push_back(line.rung + " " + kEnds.at(cell->status));
    }
    return ends;
  }

  const ComparedReports& compared_;
  size_t report_;
  std::map<std::string, const Cell*> shared_;  ///< rungs of both reports that have a comparison
  int64_t faster_ = 0, slower_ = 0, alike_ = 0, undecided_ = 0, too_few_ = 0;
  double memory_ = 0;
  std::vector<std::string> ends_;
};

TEST(Comparison, HeadlineMatchesTheTable) {
  for (uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const TemporaryFolder folders;
    std::vector<std::filesystem::path> reports;
    for (int i = 0; i < 2 + dice.up_to(2); ++i) {
      // Most reports have the same rungs and another machine.
      test::SyntheticReport report = test::random_report(dice.in(6) ? seed + 1000 : seed);
      for (auto& [rung, outcome] : report.outcomes)
        if (i > 0 && dice.in(2)) draw_outcome(outcome, report.experiment.rounds, dice);
      reports.push_back(folders.path() / std::to_string(i));
      report.write(reports.back());
    }
    const ComparedReports compared =
        compare_reports(reports, [](const Analysis&, ComparedReports::Report&) {});
    std::string text = headline(compared);
    SCOPED_TRACE(text);
    for (size_t i = 1; i < reports.size(); ++i) {
      const std::string next = i + 1 < reports.size() ? ". " : ".";
      const size_t end = i + 1 < reports.size() ? text.find(next) : text.size() - 1;
      // The point in a ratio has no space after it, so this finds the end of a sentence.
      ASSERT_NE(end, std::string::npos);
      Reader(compared, i).read(text.substr(0, end));
      text.erase(0, std::min(text.size(), end + next.size()));
    }
    EXPECT_EQ(text, "");
  }
}

/// A report of the ladder alfa, bravo, in which the machine is `speed` times as fast and drifted by `drift`.
test::SyntheticReport on_a_day(double speed, double drift, double bravo) {
  test::SyntheticReport report("days", 5);
  report.ladder({test::rung("alfa", "part_1"), test::rung("bravo", "part_2")});
  report["base"].tokens_per_second = 1000 * speed;
  report["alfa"].tokens_per_second = 1200 * speed;
  report["bravo"].tokens_per_second = 1500 * speed * bravo;
  report.drift_tokens_per_second = 1000 * speed * drift;
  return report;
}

ComparedReports compared_days(const test::SyntheticReport& first, const test::SyntheticReport& second) {
  const TemporaryFolder folders;
  first.write(folders.path() / "0");
  second.write(folders.path() / "1");
  return compare_reports({folders.path() / "0", folders.path() / "1"},
                         [](const Analysis&, ComparedReports::Report&) {});
}

TEST(Comparison, AMachineThatDriftsIsNoDifference) {
  EXPECT_THAT(headline(compared_days(on_a_day(1, 1, 1), on_a_day(0.96, 1, 1))),
              testing::StartsWith("Against A, B is slower in 3 of 3 shared rungs"));
  EXPECT_THAT(headline(compared_days(on_a_day(1, 0.97, 1), on_a_day(0.96, 1.03, 1))),
              testing::StartsWith("B is not shown to be faster or slower than A"));
}

TEST(Comparison, ARungIsComparedOverItsBase) {
  const auto compared = compared_days(on_a_day(1, 0.95, 1), on_a_day(0.96, 1.05, 0.9));
  EXPECT_THAT(headline(compared), testing::HasSubstr("; slower over the base: bravo 0.90x"));
  EXPECT_FALSE(compared.lines.front().cells.back()->over_base) << "the base over itself";
}
}  // namespace
}  // namespace optrush
