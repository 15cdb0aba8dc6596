// The files of a saved state, and the conditions for a run to continue from it.
#include "spec/state_files.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "spec/run_identity.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;

class Records : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void commit(int64_t step) const { write_json(state_head(folder_), {{"step", step}}); }
  const TemporaryFolder place_;
  const fs::path folder_ = place_ / "state";
  const Json record_ = {{"record", {{"steps", {{{"step", 0}, {"loss", 1.25}}}}}}, {"name", "\u00e9"}};
};

TEST_F(Records, AreReadFromTheCommittedState) {
  EXPECT_FALSE(saved_record(folder_, 0));
  fs::create_directories(state_of_step(folder_, 4));
  fs::create_directories(state_of_step(folder_, 8));
  write_record(folder_, 4, 0, record_);
  write_record(folder_, 4, 1, {{"rank", 1}});
  EXPECT_FALSE(saved_record(folder_, 0)) << "there is no state";
  commit(4);
  EXPECT_EQ(saved_record(folder_, 0), record_);
  EXPECT_EQ(saved_record(folder_, 1), (Json{{"rank", 1}}));
  EXPECT_FALSE(saved_record(folder_, 2));
  commit(8);
  EXPECT_FALSE(saved_record(folder_, 0)) << "the record is missing";
}

TEST_F(Records, ChangedRecordsAreIgnored) {
  fs::create_directories(state_of_step(folder_, 4));
  write_record(folder_, 4, 0, record_);
  commit(4);
  const fs::path file = state_of_step(folder_, 4) / "rank-00000.json";
  const std::string text = read_file(file);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    write_file(file, changed);
    const auto found = saved_record(folder_, 0);
    EXPECT_TRUE(!found || *found == record_) << "byte " << i;
    write_file(file, text.substr(0, i));
    EXPECT_FALSE(saved_record(folder_, 0)) << "cut at " << i;
  }
  write_file(file, text);
  EXPECT_EQ(saved_record(folder_, 0), record_);
  write_file(state_head(folder_), "{");
  EXPECT_FALSE(saved_record(folder_, 0));
}

TEST_F(Records, AreRemovedWithoutTheStates) {
  fs::create_directories(state_of_step(folder_, 4));
  write_record(folder_, 4, 0, record_);
  write_file(state_part(folder_, 4, 0), "state");
  commit(4);
  forget_records(folder_);
  EXPECT_FALSE(saved_record(folder_, 0));
  EXPECT_TRUE(fs::exists(state_head(folder_)) && fs::exists(state_part(folder_, 4, 0)));
  forget_records(folder_ / "none");
}

TEST(RunIdentity, IgnoresTheTimeLimit) {
  RunSpec spec, longer, other;
  longer.timeout_s = 5;
  other.train.lr = 0.5;
  EXPECT_EQ(spec_sha256(spec), spec_sha256(longer));
  EXPECT_NE(spec_sha256(spec), spec_sha256(other));
}

TEST(RunIdentity, InputsAreTheFilesThatAreRead) {
  const TemporaryFolder folder;
  RunSpec spec;
  const std::string of_nothing = sum_of_inputs(spec);
  spec.data.path = folder / "text";
  EXPECT_EQ(sum_of_inputs(spec), of_nothing) << "the file is missing";
  fs::create_directories(folder / "text" / "deep");
  write_file(folder / "text" / "deep" / "a.txt", "one");
  const std::string one = sum_of_inputs(spec);
  EXPECT_NE(one, of_nothing);
  EXPECT_EQ(sum_of_inputs(spec), one);
  write_file(folder / "text" / "deep" / "a.txt", "more");
  EXPECT_NE(sum_of_inputs(spec), one);
  spec.data.path.clear();
  spec.model = {{"checkpoint", (folder / "text").string()}};
  EXPECT_NE(sum_of_inputs(spec), of_nothing);
  spec.model = Json::object();
  spec.validate.data.path = folder / "text";
  EXPECT_NE(sum_of_inputs(spec), of_nothing);
}
}  // namespace
}  // namespace optrush
