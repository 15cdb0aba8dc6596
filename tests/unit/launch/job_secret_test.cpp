// The secret of a job: from a variable, or from a file that only its user can read.
#include "launch/run/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "../../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "machine/environment.h"
#include "process/process.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using testing::error_of;
using ::testing::HasSubstr;

class JobSecretTest : public ::testing::Test {
 protected:
  JobSecretTest() { setenv("XDG_STATE_HOME", folder_.path().c_str(), 1); }
  ~JobSecretTest() override { unsetenv("XDG_STATE_HOME"); }
  static JobSecret stored() { return job_secret("", /*one_machine=*/false); }

  TemporaryFolder folder_;
  fs::path file_ = folder_ / "optimization-rush/job_secret";
};

TEST_F(JobSecretTest, FileIsMadeOnceAndReadAgain) {
  const std::string first = stored().bytes;
  EXPECT_EQ(first.size(), 64U);
  EXPECT_EQ(stored().bytes, first);
  struct stat status {};
  ASSERT_EQ(stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  EXPECT_EQ(std::distance(fs::directory_iterator(file_.parent_path()), {}), 1) << "no temporary file stays";
  fs::remove(file_);
  EXPECT_NE(stored().bytes, first) << "another random text";
}

TEST_F(JobSecretTest, ProcessesThatMakeItAtOnceHaveTheSame) {
  std::vector<std::string> secrets(8);
  {
    std::vector<std::jthread> threads;
    for (auto& secret : secrets) threads.emplace_back([&secret] { secret = stored().bytes; });
  }
  EXPECT_EQ(std::set(secrets.begin(), secrets.end()).size(), 1U);
}

TEST_F(JobSecretTest, FileThatAnotherUserMayKnowIsRefused) {
  for (const mode_t mode : {0644U, 0640U, 0620U, 0602U}) {
    stored();
    chmod(file_.c_str(), mode);
    const std::string error = error_of([] { stored(); });
    EXPECT_THAT(error, HasSubstr("may be read or written by other users"));
    EXPECT_THAT(error, HasSubstr("remove the file"));
    EXPECT_THAT(error, HasSubstr(file_.string()));
    EXPECT_THAT(error_of([] { job_secret("", /*one_machine=*/true); }), HasSubstr("other users"));
    fs::remove(file_);
  }
}

TEST_F(JobSecretTest, FileOfAnotherUserIsRefused) {
  stored();
  if (chown(file_.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root can change the owner of a file";
  EXPECT_THAT(error_of([] { stored(); }), HasSubstr("belongs to another user"));
}

TEST_F(JobSecretTest, LinksFoldersAndDamagedFilesAreRefused) {
  const std::string secret = stored().bytes;
  fs::rename(file_, folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", file_);
  EXPECT_THAT(error_of([] { stored(); }), HasSubstr("cannot be read"));
  fs::remove(file_);
  fs::create_directory(file_);
  EXPECT_THAT(error_of([] { stored(); }), HasSubstr("is not a file"));
  fs::remove(file_);
  for (const std::string& text : {std::string(), std::string("short"), secret + "0", std::string(64, 'x')}) {
    write_file(file_, text);
    chmod(file_.c_str(), 0600);
    const std::string error = error_of([] { stored(); });
    EXPECT_THAT(error, HasSubstr("is damaged"));
    EXPECT_THAT(error, ::testing::Not(HasSubstr(secret))) << "no message has the secret";
  }
}

TEST_F(JobSecretTest, WithoutAPlaceForItOnlyOneMachineIsServed) {
  write_file(folder_ / "file", "");
  setenv("XDG_STATE_HOME", (folder_ / "file").c_str(), 1);
  EXPECT_EQ(job_secret("", /*one_machine=*/true).bytes, "");
  const std::string error = error_of([] { stored(); });
  EXPECT_THAT(error, HasSubstr("no secret in common"));
  EXPECT_THAT(error, HasSubstr("export OPTRUSH_JOB_SECRET="));
  const std::string home = environment_variable("HOME");
  unsetenv("XDG_STATE_HOME");
  unsetenv("HOME");
  EXPECT_THAT(error_of([] { stored(); }), HasSubstr("HOME is not set"));
  EXPECT_EQ(job_secret("", /*one_machine=*/true).bytes, "");
  setenv("HOME", home.c_str(), 1);
}

TEST_F(JobSecretTest, GivenSecretIsTakenFromTheEnvironment) {
  setenv("OPTRUSH_JOB_SECRET", "0123456789abcdef", 1);
  const std::string given = take_given_secret();
  EXPECT_EQ(job_secret(given, false).bytes, "0123456789abcdef");
  EXPECT_FALSE(fs::exists(file_)) << "no file is needed";
  for (const auto& variable : environment_with({}))
    EXPECT_THAT(variable, ::testing::Not(HasSubstr("OPTRUSH_JOB_SECRET"))) << "no child process has it";
  const std::string error = error_of([] { job_secret("fifteen letters", false); });
  EXPECT_THAT(error, HasSubstr("has 15 bytes, but a secret needs 16 or more"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("fifteen letters")));
}
}  // namespace
}  // namespace optrush
