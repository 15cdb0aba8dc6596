// Temporary folders are removed, however the program ends.
#include "base/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "base/files.h"
#include "base/temporary_folder.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;

class TemporaryFolders : public ::testing::Test {
 protected:
  TemporaryFolders() {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    setenv("TMPDIR", all_.path().c_str(), 1);
  }
  ~TemporaryFolders() override {
    before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1);
  }
  int64_t count() const {
    return std::distance(fs::directory_iterator(all_.path()), fs::directory_iterator());
  }
  /// A process that keeps a temporary folder until it is killed.
  pid_t holder() const {
    const int64_t before = count();
    const pid_t pid = fork();
    if (pid == 0) {
      const TemporaryFolder folder;
      write_file(folder.path() / "spec.json", "{}");
      while (true) pause();
    }
    for (int i = 0; i < 5000 && count() == before; ++i) usleep(1000);
    usleep(50'000);  // the child holds the folder's lock
    return pid;
  }
  static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  std::string before_;
  const TemporaryFolder all_;
};

TEST_F(TemporaryFolders, FolderOfAKilledProgramIsRemovedByTheNext) {
  const pid_t dead = holder(), alive = holder();
  EXPECT_EQ(count(), 2);
  end(dead);
  EXPECT_EQ(count(), 2);
  { const TemporaryFolder another; }
  EXPECT_EQ(count(), 1) << "the folder of a running program is kept";
  end(alive);
  remove_abandoned_folders();
  EXPECT_EQ(count(), 0);
}

TEST_F(TemporaryFolders, OtherFilesAreKept) {
  fs::create_directory(all_ / "optrush-other");
  write_file(all_ / "optrush-tmp-file", "");
  fs::create_directory_symlink(all_ / "optrush-other", all_ / "optrush-tmp-link");
  remove_abandoned_folders();
  EXPECT_EQ(count(), 3);
}
}  // namespace
}  // namespace optrush
