#include "results/journal.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "launch/ledger/resume.h"

namespace optrush {
namespace {
using Event = JournalEntry::Event;

JournalEntry started(const std::string& run, const std::string& spec, std::optional<int64_t> from_step = {}) {
  return {.event = Event::started, .run = run, .spec_sha256 = spec, .from_step = from_step};
}

TEST(Journal, ReturnsTheSpecOfAStartedRun) {
  const TemporaryFolder folder;
  {
    Journal journal(folder.path());
    journal.append(started("a.r1", "first"));
    JournalEntry second = started("a.r1", "second");
    second.inputs = "files";
    journal.append(second);
    journal.append({.event = Event::finished, .run = "a.r1", .spec_sha256 = "second"});
    EXPECT_EQ(journal.of("a.r1").spec, "second");
    EXPECT_EQ(journal.of("a.r2").spec, "");
  }
  const Journal again(folder.path());
  EXPECT_EQ(again.of("a.r1").spec, "second");
  EXPECT_EQ(again.of("a.r1").inputs, "files");
  EXPECT_EQ(again.of("a.r2").inputs, "");
}

TEST(Journal, RecordsTheEndOfTheExperiment) {
  const TemporaryFolder folder;
  EXPECT_FALSE(Journal(folder.path()).came_to_end());
  Journal(folder.path()).append({.event = Event::ended});
  EXPECT_TRUE(Journal(folder.path()).came_to_end());
  Journal(folder.path()).append(started("a.r1", "spec"));
  EXPECT_FALSE(Journal(folder.path()).came_to_end());
}

TEST(Journal, ReturnsFaultsUntilTheRunStartsAfresh) {
  const TemporaryFolder folder;
  const JournalEntry before_a_state{.event = Event::restarted,
                                    .run = "a",
                                    .status = Status::crashed,
                                    .reason = "ended by SIGSEGV\nlast lines",
                                    .made = 7,
                                    .kept = 0};
  const JournalEntry after_one{.event = Event::restarted,
                               .run = "a",
                               .status = Status::timeout,
                               .reason = "rank 1: did not come",
                               .rank = 1,
                               .made = 46,
                               .kept = 40};
  {
    Journal journal(folder.path());
    journal.append(started("a", "spec"));
    journal.append(before_a_state);
    journal.append(started("a", "spec"));
    journal.append(after_one);
    journal.append(started("a", "spec", 40));
    EXPECT_EQ(journal.of("a").restarts.size(), 2);
    EXPECT_TRUE(journal.of("b").restarts.empty());
  }
  {
    Journal again(folder.path());
    again.append(started("a", "spec", 60));
    const auto restarts = again.of("a").restarts;
    ASSERT_EQ(restarts.size(), 2) << "a run that continues keeps its faults";
    EXPECT_EQ(restarts[1].reason, after_one.reason);
    EXPECT_EQ(restarts[1].rank, 1);
    EXPECT_EQ(restarts[1].made, 46);
    EXPECT_EQ(restarts[1].kept, 40);
    EXPECT_EQ(note_of(restarts),
              "it started again 2 times after a fault, and made 13 steps again: from the beginning: ended by "
              "SIGSEGV; from the state after step 40: rank 1: did not come");
    again.append(started("a", "spec"));
    EXPECT_TRUE(again.of("a").restarts.empty()) << "a run that starts from the beginning has no faults";
  }
  EXPECT_TRUE(Journal(folder.path()).of("a").restarts.empty());
}

TEST(Journal, ForgetsSkippedRuns) {
  const TemporaryFolder folder;
  {
    Journal journal(folder.path());
    journal.append(started("a.r1", "spec"));
    journal.append(started("b.r1", "spec"));
    journal.append({.event = Event::skipped, .run = "a.r1", .reason = "its variant failed"});
    EXPECT_EQ(journal.of("a.r1").spec, "");
  }
  const Journal again(folder.path());
  EXPECT_EQ(again.of("a.r1").spec, "");
  EXPECT_EQ(again.of("b.r1").spec, "spec");
}
}  // namespace
}  // namespace optrush
