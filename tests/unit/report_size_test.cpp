// The cost of a report grows linearly with its rungs and steps. The tests count allocations, because times
// vary.
#include <gtest/gtest.h>

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "analysis/checked_rows.h"
#include "analysis/gate/gate.h"
#include "base/temporary_folder.h"
#include "report/writers/writers.h"
#include "report_fixture.h"
#include "results/stored.h"

namespace {
std::atomic<int64_t> allocations = 0, held = 0, most_held = 0;

void release(void* block) {
  held -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}
}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  void* const block = std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  held += static_cast<int64_t>(malloc_usable_size(block));
  most_held = std::max<int64_t>(most_held, held);
  return block;
}
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, size_t) noexcept { release(block); }

namespace optrush {
namespace {
/// Allocations to read, analyse and write a report.
int64_t allocations_of(const test::SyntheticReport& report) {
  const TemporaryFolder folder;
  report.write(folder.path());
  const int64_t before = allocations;
  const Analysis a = analyze(load_report(folder.path()));
  const Document document = make_document(a);
  EXPECT_FALSE(markdown(document, {}).empty());
  EXPECT_FALSE(html(document, {}).empty());
  EXPECT_FALSE(csv(a).empty());
  write_results(folder / "results.json", a);
  EXPECT_FALSE(charts_of(a).empty());
  return allocations - before;
}

/// Rungs with the same task, on top of each other.
test::SyntheticReport report_with_rungs(int count) {
  test::SyntheticReport report("many", 1);
  std::vector<Rung> rungs;
  for (int i = 1; i <= count; ++i) {
    rungs.push_back(test::rung("rung " + std::to_string(i), "flash_attention", {{"variant", i}}));
    if (i > 1) rungs.back().replace = {"flash_attention"};
  }
  report.ladder(rungs);
  return report;
}

test::SyntheticReport report_with_steps(int count) {
  auto report = test::three_rungs();
  report.experiment.base.train.steps = count;
  return report;
}

/// Allocations to plan the checks of a ladder.
int64_t allocations_of_gate(int rungs) {
  const test::SyntheticReport report = report_with_rungs(rungs);
  const std::vector<Variant> variants = expand(report.experiment);
  const Plans plans = report.plans(variants);
  const int64_t before = allocations;
  EXPECT_EQ(std::ssize(test::plan_gate(variants, plans)), rungs + 1);
  return allocations - before;
}

TEST(SizeOfAReport, PlanningTheGateGrowsWithTheRungs) {
  EXPECT_LT(static_cast<double>(allocations_of_gate(240)),
            2.2 * static_cast<double>(allocations_of_gate(120)));
}

/// Allocations to check the last rung again, as the gate does after an extra run.
int64_t allocations_of_a_check(int rungs) {
  const TemporaryFolder folder;
  report_with_rungs(rungs).write(folder.path());
  const Stored stored = load_report(folder.path());
  const VariantRuns runs(stored.variants, stored.runs);
  CheckedRows rows(stored);
  for (const Variant& variant : stored.variants) rows.update(variant, runs);
  const int64_t before = allocations;
  EXPECT_TRUE(rows.update(stored.variants.back(), runs).verdict.compared);
  return allocations - before;
}

TEST(SizeOfAReport, ACheckDoesNotGrowWithTheRungs) {
  EXPECT_LT(static_cast<double>(allocations_of_a_check(80)),
            1.1 * static_cast<double>(allocations_of_a_check(40)));
}

TEST(SizeOfAReport, CostGrowsWithTheRungs) {
  EXPECT_LT(static_cast<double>(allocations_of(report_with_rungs(80))),
            2.1 * static_cast<double>(allocations_of(report_with_rungs(40))));
}

TEST(SizeOfAReport, CostGrowsWithTheSteps) {
  EXPECT_LT(static_cast<double>(allocations_of(report_with_steps(600))),
            2.1 * static_cast<double>(allocations_of(report_with_steps(300))));
}
/// Peak bytes to read, analyse and write a report, as the program does.
int64_t memory_of(const test::SyntheticReport& report) {
  const TemporaryFolder folder;
  report.write(folder.path());
  const int64_t before = held;
  most_held = before;
  write_results(folder / "results.json", analyze(load_report(folder.path())));
  return most_held - before;
}

TEST(SizeOfAReport, AStepTakesLessMemoryThanItsText) {
  constexpr int kFew = 1000, kMany = 2000, kRuns = 13;  // four rungs, three rounds, and the drift run
  const auto more =
      static_cast<double>(memory_of(report_with_steps(kMany)) - memory_of(report_with_steps(kFew)));
  EXPECT_LT(more / ((kMany - kFew) * kRuns), 250) << "bytes";
}
}  // namespace
}  // namespace optrush
