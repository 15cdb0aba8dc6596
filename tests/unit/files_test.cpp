// Reading files: only regular files up to a size limit.
#include "base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "../support/error_of.h"
#include "base/listed_files.h"
#include "base/temporary_folder.h"
#include "optrush/error.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

class Files : public ::testing::Test {
 protected:
  std::string read_error() const {
    return error_of([&] { read_file(file_); });
  }
  const TemporaryFolder folder_;
  const fs::path file_ = folder_ / "file.json";
};

TEST_F(Files, ReadingAPipeDoesNotBlock) {
  mkfifo(file_.c_str(), 0644);
  EXPECT_THAT(read_error(), AllOf(HasSubstr(file_.string()), HasSubstr("a pipe")));
  EXPECT_THAT(error_of([&] { append_line(file_, "x"); }), HasSubstr(file_.string()));
}

TEST_F(Files, ADeviceIsNotRead) {
  fs::create_symlink("/dev/zero", file_);
  EXPECT_THAT(read_error(), AllOf(HasSubstr(file_.string()), HasSubstr("a device")));
}

TEST_F(Files, LinkToItselfExistsButCannotBeRead) {
  fs::create_symlink(file_, file_);
  EXPECT_TRUE(is_there(file_));
  EXPECT_THAT(read_error(), HasSubstr(file_.string()));
}

TEST_F(Files, AFolderIsNeitherReadNorReplaced) {
  fs::create_directory(file_);
  EXPECT_THAT(read_error(), HasSubstr("a folder"));
  EXPECT_THAT(error_of([&] { write_file(file_, "x"); }), HasSubstr(file_.string()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << "the temporary file is removed";
}

TEST_F(Files, RestOfAStreamEndsAtAFailedRead) {
  write_file(folder_ / "some", std::string(10000, 'x') + "\n");
  std::ifstream file(folder_ / "some");
  file.seekg(3);
  EXPECT_EQ(rest_of(file).size(), 9998U);
  std::ifstream folder(folder_.path());  // opening succeeds, reading fails
  EXPECT_EQ(rest_of(folder), "");
}

TEST_F(Files, PipeIsWrittenAndNotReplaced) {
  mkfifo(file_.c_str(), 0644);
  EXPECT_THAT(error_of([&] { write_file(file_, "x"); }), HasSubstr(file_.string()))
      << "the FIFO has no reader";
  const int reader = open(file_.c_str(), O_RDONLY | O_NONBLOCK);
  write_file(file_, "text");
  std::string read_back(5, ' ');
  EXPECT_EQ(::read(reader, read_back.data(), read_back.size()), 4);
  close(reader);
  EXPECT_EQ(read_back, "text ");
  EXPECT_TRUE(fs::is_fifo(file_));
}

TEST_F(Files, AFileOfManyGigabytesIsRefusedBeforeItIsRead) {
  std::ofstream(file_).close();
  fs::resize_file(file_, uintmax_t{1} << 40U);
  EXPECT_THAT(read_error(), AllOf(HasSubstr(file_.string()), HasSubstr("1 GiB")));
}

TEST_F(Files, InvalidJsonHasItsOwnError) {
  write_file(file_, "{\"a\": [1,");
  EXPECT_THAT(error_of([&] { read_json(file_); }),
              AllOf(HasSubstr(file_.string()), HasSubstr("line 1"), Not(HasSubstr("json.exception"))));
}

TEST_F(Files, FolderIsListedRecursively) {
  fs::create_directories(folder_ / "a/b");
  write_file(folder_ / "a/b/deep.txt", "1234");
  write_file(folder_ / "a/.hidden", "");
  write_file(folder_ / "other/far", "x");
  fs::create_symlink("../other/far", folder_ / "a/link");
  fs::create_directory_symlink("../other", folder_ / "a/folder");
  fs::create_symlink("nowhere", folder_ / "a/broken");
  mkfifo((folder_ / "a/pipe").c_str(), 0644);
  auto files = listed_files(folder_ / "a", Unreadable::error);
  std::ranges::sort(files, {}, &ListedFile::path);
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].path, (folder_ / "a/.hidden").string());
  EXPECT_EQ(files[1].path, (folder_ / "a/b/deep.txt").string());
  EXPECT_EQ(files[1].size, 4);
  EXPECT_EQ(files[1].written, fs::last_write_time(folder_ / "a/b/deep.txt"));
  EXPECT_EQ(files[2].path, (folder_ / "a/link").string());
  EXPECT_EQ(files[2].size, 1);
}

TEST_F(Files, AFileIsListedAsItself) {
  write_file(file_, "x");
  ASSERT_EQ(listed_files(file_, Unreadable::error).size(), 1U);
  EXPECT_EQ(listed_files(file_, Unreadable::error)[0].path, file_.string());
  EXPECT_TRUE(listed_files(folder_ / "missing", Unreadable::error).empty());
  fs::create_directory_symlink(folder_.path(), folder_ / "itself");
  EXPECT_EQ(listed_files(folder_ / "itself", Unreadable::error).size(), 1U)
      << "a folder that was named directly is listed";
}

TEST_F(Files, FilesOfKilledWritersAreRemoved) {
  write_file(folder_ / "result.json.4711.tmp", "half");
  const std::vector<std::string> others = {"notes.4711.tmp", "result.json.tmp", "result.json.x1.tmp",
                                           "result.json.4711.tmp.txt", "my.result.json.4711.tmp"};
  for (const auto& other : others) write_file(folder_ / other, "theirs");
  fs::create_directory(folder_ / "result.json.12.tmp");
  remove_unfinished(folder_.path(), {"spec.json", "result.json"});
  EXPECT_FALSE(fs::exists(folder_ / "result.json.4711.tmp"));
  for (const auto& other : others) EXPECT_TRUE(fs::exists(folder_ / other)) << other;
  EXPECT_TRUE(fs::exists(folder_ / "result.json.12.tmp")) << "a folder of the user";
}
}  // namespace
}  // namespace optrush
