// Checksums detect a stored file that was changed later, and report no other file.
#include "results/journal.h"

#include <gmock/gmock.h>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"

namespace optrush {
namespace {
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

class SumsTest : public ::testing::Test {
 protected:
  Json read(const std::filesystem::path& file) const { return Journal(folder_.path()).read(file); }
  const TemporaryFolder folder_;
  Journal journal_{folder_.path()};
  const std::filesystem::path plans_ = folder_ / "plans.json", result_ = folder_ / "runs/a/result.json";
};

TEST_F(SumsTest, UnknownFilesAreNotChecked) {
  write_json(plans_, {1});
  EXPECT_EQ(read(plans_), Json({1}));
}

TEST_F(SumsTest, AChangedDigitIsFound) {
  journal_.write("plans.json", {1, 2});
  EXPECT_EQ(read(plans_), Json({1, 2}));
  write_json(plans_, {1, 3});
  EXPECT_THAT(error_of([&] { read(plans_); }), AllOf(HasSubstr(plans_.string()), HasSubstr("remove it")));
}

/// A controller that is killed between the journal's line and the file leaves the old file.
TEST_F(SumsTest, PreviousFileIsAccepted) {
  journal_.write("plans.json", {1});
  const std::string before = read_file(plans_);
  journal_.write("plans.json", {2});
  write_file(plans_, before);
  EXPECT_EQ(read(plans_), Json({1}));
}

TEST_F(SumsTest, ResultMustBeOfTheLastAttempt) {
  write_json(result_, {1});
  journal_.append({.event = JournalEntry::Event::started, .run = "a"});
  journal_.append({.event = JournalEntry::Event::finished, .run = "a", .sha256 = sha256_file(result_)});
  EXPECT_EQ(read(result_), Json({1}));
  write_json(result_, {2});
  EXPECT_THAT(error_of([&] { read(result_); }), HasSubstr("the folder '" + result_.parent_path().string()));
  journal_.append({.event = JournalEntry::Event::started, .run = "a"});
  EXPECT_EQ(read(result_), Json({2})) << "the controller was killed before it recorded the new file";
}
}  // namespace
}  // namespace optrush
