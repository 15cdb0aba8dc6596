// The finding and the marks of a report whose stacks must learn one batch by heart.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/number_text.h"
#include "random_report.h"
#include "report/claims/claims.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kRequired = 5.45;  ///< between the last loss of a falling run and of a rising run

test::SyntheticReport overfit_report(int64_t rounds, const std::vector<std::string>& names) {
  test::SyntheticReport report("overfit", rounds);
  report.experiment.base.train.overfit = kRequired;
  std::vector<Rung> rungs;
  for (const std::string& name : names) {
    rungs.push_back(test::rung(name, "fused_adamw"));
    rungs.back().over = "base";
  }
  report.ladder(rungs);
  return report;
}

double last_loss(const Row& row) { return row.steps.back().loss; }

TEST(OverfitFinding, AllStacksLearn) {
  const Analysis a = test::analysis_of(overfit_report(1, {"alfa", "bravo"}));
  const std::string sentence = "ll 3 stacks learn one batch: the last training loss is at most " +
                               fixed(last_loss(a.rows.front()), 4) + " (required: below 5.45).";
  EXPECT_EQ(findings(a).front(), "A" + sentence);
  EXPECT_THAT(headline(a), HasSubstr("a" + sentence));
  for (const Row& row : a.rows) EXPECT_EQ(loss_check(row), "✓") << row.name;
}

TEST(OverfitFinding, SingleStackLearns) {
  const Analysis a = test::analysis_of(overfit_report(1, {}));
  EXPECT_THAT(findings(a).front(), StartsWith("base learns one batch: the last training loss is at most "));
}

TEST(OverfitFinding, NothingIsReportedWithoutTheRequirement) {
  auto report = overfit_report(1, {"alfa"});
  report.experiment.base.train.overfit = 0;
  EXPECT_THAT(headline(test::analysis_of(report)), ::testing::Not(HasSubstr("batch:")));
}

/// Random tables: stacks that learn the batch, stacks that do not, and stacks with too few steps.
TEST(OverfitFinding, CountsAndNamesStacksThatDoNotLearn) {
  constexpr uint64_t kTables = 40;
  for (uint64_t seed = 0; seed < kTables && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::Dice dice(seed);
    const std::vector<std::string> names(test::kNames.begin(), test::kNames.begin() + 1 + dice.up_to(6));
    auto report = overfit_report(1 + dice.up_to(4), names);
    int64_t asked = 1;  // the base, which learns the batch
    std::vector<std::string> failed;
    for (const std::string& name : names) {
      test::Outcome& outcome = report[name];
      outcome.falls = !dice.in(3);
      if (dice.in(4)) {
        outcome.status = "oom";
        outcome.reason = "by the dice";
      } else {
        ++asked;
        if (!outcome.falls) failed.push_back(name);
      }
    }
    const Analysis a = test::analysis_of(report);
    const std::string sentence = findings(a).front();
    if (failed.empty()) {
      EXPECT_THAT(sentence, HasSubstr(asked == 1 ? "base learns one batch"
                                                 : "ll " + std::to_string(asked) + " stacks"));
      continue;
    }
    EXPECT_THAT(sentence,
                StartsWith(std::to_string(failed.size()) + " of " + std::to_string(asked) + " stacks"));
    for (const Row& row : a.rows) {
      const bool named = sentence.find(row.name + " (") != std::string::npos;
      EXPECT_EQ(named, std::ranges::count(failed, row.name) == 1) << row.name;
      if (!named) continue;
      EXPECT_THAT(sentence, HasSubstr(row.name + " (" + fixed(last_loss(row), 4) + ")"));
      EXPECT_EQ(row.status, Status::broken);
      EXPECT_EQ(loss_check(row), "✗ broken");
    }
  }
}
}  // namespace
}  // namespace optrush
