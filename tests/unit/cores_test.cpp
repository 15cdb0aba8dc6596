#include "machine/cores.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "machine/environment.h"
#include "optrush/error.h"

namespace optrush {
namespace {
class EnvironmentSettings : public ::testing::Test {
 protected:
  EnvironmentSettings() { forget(); }
  ~EnvironmentSettings() override { forget(); }
  static void forget() {
    for (const char* name : {"OMP_NUM_THREADS", "TORCHELASTIC_RUN_ID", "OPTRUSH_COLLECTIVE_TIMEOUT"})
      unsetenv(name);
  }
};

TEST(ShareOfCores, IsEvenUnlessTheLauncherBindsCores) {
  EXPECT_EQ(share_of_cores(4, 16, 16), 4);
  EXPECT_EQ(share_of_cores(4, 2, 2), 1) << "more ranks than cores";
  EXPECT_EQ(share_of_cores(4, 4, 16), 4) << "bound to a quarter of the launcher's cores";
  EXPECT_EQ(share_of_cores(8, 32, 64), 8) << "bound to one of two sockets, four ranks on each";
  EXPECT_EQ(share_of_cores(2, 1, 64), 1) << "bound to one core";
}

TEST_F(EnvironmentSettings, NumberOfThreadsIsRead) {
  EXPECT_EQ(asked_threads(), 0);
  EXPECT_EQ(usual_threads(1), usable_cores());
  EXPECT_EQ(usual_threads(1'000'000), 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(asked_threads(), 1);
  setenv("OMP_NUM_THREADS", "6,2", 1);
  EXPECT_EQ(asked_threads(), 6);
  EXPECT_EQ(usual_threads(1), 6);
  EXPECT_EQ(usual_threads(4), 6) << "threads of each rank";
  for (const char* nonsense : {"", "many", "-3", "0"}) {
    setenv("OMP_NUM_THREADS", nonsense, 1);
    EXPECT_EQ(asked_threads(), 0) << nonsense;
  }
}

TEST_F(EnvironmentSettings, SingleThreadOfTorchrunIsIgnored) {
  setenv("TORCHELASTIC_RUN_ID", "none", 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(asked_threads(), 0);
  setenv("OMP_NUM_THREADS", "2", 1);
  EXPECT_EQ(asked_threads(), 2);
}

TEST_F(EnvironmentSettings, CollectiveTimeoutIsRead) {
  EXPECT_EQ(collective_timeout().count(), 600);
  EXPECT_EQ(state_timeout().count(), 3600);
  setenv("OPTRUSH_COLLECTIVE_TIMEOUT", "900", 1);
  EXPECT_EQ(collective_timeout().count(), 900);
  setenv("OPTRUSH_COLLECTIVE_TIMEOUT", "1.5", 1);
  EXPECT_EQ(collective_timeout().count(), 2) << "rounded to whole seconds";
  for (const char* nonsense : {"0", "-1", "1 s", "x", "nan", "90000"}) {
    setenv("OPTRUSH_COLLECTIVE_TIMEOUT", nonsense, 1);
    EXPECT_THROW(collective_timeout(), Error) << nonsense;
  }
}
}  // namespace
}  // namespace optrush
