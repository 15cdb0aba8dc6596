#include "launch/journal.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"

namespace optrush {
namespace {

TEST(Journal, KnowsTheSpecThatARunWasStartedWith) {
  const TemporaryFolder folder;
  {
    Journal journal(folder.path());
    journal.started("a.r1", "first", "", "");
    journal.started("a.r1", "second", "", "files");
    journal.finished("a.r1", "second", Status::ok, "");
    EXPECT_EQ(journal.spec_of("a.r1"), "second");
    EXPECT_EQ(journal.spec_of("a.r2"), "");
  }
  const Journal again(folder.path());
  EXPECT_EQ(again.spec_of("a.r1"), "second");
  EXPECT_EQ(again.inputs_of("a.r1"), "files");
  EXPECT_EQ(again.inputs_of("a.r2"), "");
}

TEST(Journal, KnowsWhetherTheExperimentCameToItsEnd) {
  const TemporaryFolder folder;
  EXPECT_FALSE(Journal(folder.path()).came_to_end());
  Journal(folder.path()).ended();
  EXPECT_TRUE(Journal(folder.path()).came_to_end());
  Journal(folder.path()).started("a.r1", "spec", "", "");
  EXPECT_FALSE(Journal(folder.path()).came_to_end());
}

TEST(Journal, ForgetsARunThatWasSkipped) {
  const TemporaryFolder folder;
  {
    Journal journal(folder.path());
    journal.started("a.r1", "spec", "", "");
    journal.started("b.r1", "spec", "", "");
    journal.skipped("a.r1", "its variant failed");
    EXPECT_EQ(journal.spec_of("a.r1"), "");
  }
  const Journal again(folder.path());
  EXPECT_EQ(again.spec_of("a.r1"), "");
  EXPECT_EQ(again.spec_of("b.r1"), "spec");
}
}  // namespace
}  // namespace optrush
