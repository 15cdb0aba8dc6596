#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "../support/error_of.h"
#include "base/counter_random.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "data/text_source.h"
#include "data/token_source.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using optrush::testing::error_of;
using ::testing::HasSubstr;

template <class T>
void append(std::string& out, std::span<const uint32_t> tokens) {
  for (const uint32_t token : tokens) {
    const T value = static_cast<T>(token);
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

/// Tokens have 2 bytes where the vocabulary allows it.
void write_token_file(const fs::path& path, uint32_t vocab_size, std::span<const uint32_t> tokens) {
  TokenFileHeader header;
  header.token_bytes = vocab_size <= 65536 ? 2 : 4;
  header.vocab_size = vocab_size;
  header.count = tokens.size();
  std::string content(reinterpret_cast<const char*>(&header), sizeof header);
  header.token_bytes == 2 ? append<uint16_t>(content, tokens) : append<uint32_t>(content, tokens);
  write_file(path, content);
}

class Data : public ::testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& content) const {
    const fs::path path = folder_ / name;
    write_file(path, content);
    return path;
  }
  static std::vector<int64_t> sample(const TokenSource& source, int64_t index, size_t length) {
    std::vector<int64_t> tokens(length, -1);
    source.sample(index, tokens);
    return tokens;
  }
  static std::string text(const std::vector<int64_t>& tokens) { return {tokens.begin(), tokens.end()}; }

  const optrush::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST(Permutation, IsBijectiveForEverySize) {
  for (const uint64_t n : {1, 2, 3, 7, 64, 65, 1000}) {
    std::vector<uint64_t> places(n);
    for (uint64_t i = 0; i < n; ++i) places[i] = permuted(i, n, 5);
    std::ranges::sort(places);
    for (uint64_t i = 0; i < n; ++i) ASSERT_EQ(places[i], i) << "of " << n;
  }
  std::vector<uint64_t> one(100), other(100);
  for (uint64_t i = 0; i < 100; ++i) one[i] = permuted(i, 100, 1), other[i] = permuted(i, 100, 2);
  EXPECT_NE(one, other);
}

TEST_F(Data, RandomTokensDependOnlyOnSeedSampleAndPosition) {
  const auto source = open_source({}, 7, 97, 33);
  const auto tokens = sample(*source, 5, 33);
  EXPECT_EQ(sample(*open_source({}, 7, 97, 33), 5, 33), tokens);
  EXPECT_NE(sample(*open_source({}, 8, 97, 33), 5, 33), tokens);
  EXPECT_NE(sample(*source, 6, 33), tokens);
  const auto prefix = sample(*source, 5, 10);
  EXPECT_TRUE(std::ranges::equal(prefix, std::vector(tokens.begin(), tokens.begin() + 10)));
}

TEST_F(Data, RandomTokensAreUniform) {
  constexpr int64_t kVocab = 10, kLength = 20000;
  std::vector<int64_t> counts(kVocab);
  for (const int64_t token : sample(*open_source({}, 1, kVocab, kLength), 0, kLength)) counts.at(token)++;
  for (const int64_t count : counts)
    EXPECT_NEAR(count, 1.0 * kLength / kVocab, 200);  // 4.7 standard deviations
}

TEST_F(Data, TextIsReadInWindowsOncePerEpoch) {
  const auto path = write("a.txt", "abcdefghijklmnopqrstuvwxyz");
  const auto source = open_source({.kind = "text", .path = path}, 3, 256, 5);
  EXPECT_EQ(source->vocab_size(), 256);
  std::vector<std::vector<std::string>> epochs(4);
  for (int64_t i = 0; i < 20; ++i) epochs[static_cast<size_t>(i / 5)].push_back(text(sample(*source, i, 5)));
  EXPECT_TRUE(std::ranges::any_of(epochs, [&](const auto& epoch) { return epoch != epochs[0]; }));
  for (auto& epoch : epochs) {
    std::ranges::sort(epoch);
    EXPECT_THAT(epoch, ::testing::ElementsAre("abcde", "fghij", "klmno", "pqrst", "uvwxy"));
  }
}

TEST_F(Data, FilesOfAFolderAreJoinedInPathOrderByZeros) {
  write("b.h", "BB");
  write("a/z.h", "zz");
  write("a/empty.h", "");
  write("c.cpp", "not wanted");
  write("c.h", "C\xc3\xa9");
  const std::string joined("zz\0BB\0C\xc3\xa9", 9);
  const auto source = open_source({.kind = "text", .path = folder_, .extensions = {".h"}}, 3, 256, 9);
  EXPECT_EQ(text(sample(*source, 0, 9)), joined);
  const auto pairs = open_source({.kind = "text", .path = folder_, .extensions = {".h"}}, 3, 256, 2);
  std::vector<std::string> windows;
  for (int64_t i = 0; i < 4; ++i) windows.push_back(text(sample(*pairs, i, 2)));
  using namespace std::string_literals;
  EXPECT_THAT(windows, ::testing::UnorderedElementsAre("zz", "\0B"s, "B\0"s, "C\xc3"));
}

TEST_F(Data, TextErrorsNameThePlaceAndTheFix) {
  const auto open = [&](DataSpec data, int64_t vocab_size = 256, int64_t length = 4) {
    return error_of(
        [&] { sample(*open_source(data, 1, vocab_size, length), 0, static_cast<size_t>(length)); });
  };
  EXPECT_THAT(open({.kind = "txt"}),
              AllOf(HasSubstr("unknown data.kind 'txt'"), HasSubstr("did you mean 'text'")));
  EXPECT_THAT(open({.kind = "text"}), HasSubstr("needs a path"));
  EXPECT_THAT(open({.kind = "text", .path = "nowhere"}), HasSubstr("'nowhere' does not exist"));
  const auto path = write("a.txt", "abc");
  EXPECT_THAT(open({.kind = "text", .path = path}),
              AllOf(HasSubstr("has 3 tokens, but one sample needs 4"), HasSubstr("smaller train.seq_len")));
  EXPECT_THAT(open({.kind = "text", .path = path}, 97, 2),
              AllOf(HasSubstr("tokens up to 255"), HasSubstr("vocab_size is 97"), HasSubstr("at least 256")));
  EXPECT_THAT(open({.kind = "text", .path = folder_, .extensions = {".md"}}),
              HasSubstr("files that end in .md"));
  EXPECT_THAT(open({.kind = "text", .path = folder_, .extensions = {"md"}}), HasSubstr("write '.md'"));
  const auto bad = write("bad/b.txt",
                         "ab\xff"
                         "d");
  EXPECT_THAT(open({.kind = "text", .path = bad}),
              AllOf(HasSubstr(bad.string()), HasSubstr("not UTF-8 at byte 2")));
}

TEST_F(Data, TextThatShrinksIsAnError) {
  const auto path = write("a.txt", "abcdefgh");
  const auto source = open_source({.kind = "text", .path = path}, 1, 256, 8);
  fs::resize_file(path, 4);
  EXPECT_THAT(error_of([&] { sample(*source, 0, 8); }), HasSubstr("became shorter"));
}

TEST(Utf8, FindsInvalidBytes) {
  constexpr size_t kValid = std::string::npos;
  const auto whole = [](std::string_view text) { return invalid_utf8(text, false, false); };
  for (const auto* text : {"", "plain", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xe2\x82\xac!"})
    EXPECT_EQ(whole(text), kValid) << text;
  const std::vector<std::pair<const char*, size_t>> invalid = {
      {"\x80", 0},
      {"a\xc0\x80", 1},
      {"\xc1\xbf", 0},
      {"\xe0\x9f\xbf", 0},
      {"\xed\xa0\x80", 0},
      {"a\xe2\x82", 1},
      {"\xf0\x8f\xbf\xbf", 0},
      {"\xf4\x90\x80\x80", 0},
      {"\xf5", 0},
      {"ab\xc3(", 2},
      {"\xff", 0},
  };
  for (const auto& [text, place] : invalid) EXPECT_EQ(whole(text), place) << text;
  EXPECT_EQ(invalid_utf8("\x82\xac ok", true, false), kValid);
  EXPECT_EQ(invalid_utf8("\x82\xac ok", false, false), 0u);
  EXPECT_EQ(invalid_utf8("\x80\x80\x80\x80", true, false), 3u);
  EXPECT_EQ(invalid_utf8("ok \xe2\x82", false, true), kValid);
  EXPECT_EQ(invalid_utf8("ok \xe2\x82", false, false), 3u);
}

TEST_F(Data, TokenFilesOfBothWidthsRoundTrip) {
  for (const uint32_t vocab_size : {65536u, 65537u}) {
    std::vector<uint32_t> tokens(40);
    std::iota(tokens.begin(), tokens.end(), vocab_size - 40);
    const auto path = folder_ / "corpus.bin";
    write_token_file(path, vocab_size, tokens);
    EXPECT_EQ(fs::file_size(path), 32 + 40 * (vocab_size == 65536 ? 2 : 4));
    const auto source = open_source({.kind = "tokens", .path = path}, 1, 70000, 40);
    EXPECT_EQ(source->vocab_size(), vocab_size);
    EXPECT_THAT(sample(*source, 3, 40), ::testing::ElementsAreArray(tokens));
  }
}

TEST_F(Data, TokenFileIsAsDocumented) {
  const std::vector<uint32_t> tokens = {1, 0x1234};
  write_token_file(folder_ / "corpus.bin", 0x1235, tokens);
  using namespace std::string_literals;
  EXPECT_EQ(read_file(folder_ / "corpus.bin"),
            "ORTOKENS\1\0\0\0\2\0\0\0\x35\x12\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0\x34\x12"s);
}

TEST_F(Data, TokenFileErrorsNameTheFile) {
  const auto path = folder_ / "corpus.bin";
  const std::vector<uint32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  write_token_file(path, 9, tokens);
  const std::string good = read_file(path);
  const auto open = [&](const std::string& content, int64_t vocab_size = 9, int64_t length = 8) {
    write_file(path, content);
    return error_of([&] {
      const auto source = open_source({.kind = "tokens", .path = path}, 1, vocab_size, length);
      sample(*source, 0, static_cast<size_t>(length));
    });
  };
  const auto with = [&](size_t offset, char byte) {
    std::string content = good;
    content[offset] = byte;
    return content;
  };
  EXPECT_EQ(open(good), "");
  EXPECT_THAT(open(""), HasSubstr("header of 32 bytes"));
  EXPECT_THAT(open(good.substr(0, 31)), HasSubstr("header of 32 bytes"));
  EXPECT_THAT(open(with(0, 'o')), HasSubstr("does not begin with 'ORTOKENS'"));
  EXPECT_THAT(open(with(8, 2)), HasSubstr("version 2"));
  EXPECT_THAT(open(with(12, 3)), HasSubstr("2 or 4"));
  EXPECT_THAT(open(with(16, 0)), HasSubstr("vocab_size of 0"));
  EXPECT_THAT(open(with(24, 9)), HasSubstr("should have 9 tokens"));
  EXPECT_THAT(open(good + "x"), HasSubstr("17 bytes follow"));
  EXPECT_THAT(open(good, 9, 9), HasSubstr("has 8 tokens, but one sample needs 9"));
  EXPECT_THAT(open(good, 8), AllOf(HasSubstr("tokens up to 8"), HasSubstr("at least 9")));
  EXPECT_THAT(open(with(34, 9)), HasSubstr("has token 9 at position 1"));
  EXPECT_THAT(open(good), "");
  fs::remove(path);
  EXPECT_THAT(error_of([&] { open_source({.kind = "tokens", .path = path}, 1, 9, 8); }),
              HasSubstr(path.string()));
  EXPECT_THAT(error_of([&] { open_source({.kind = "tokens", .path = folder_}, 1, 9, 8); }),
              HasSubstr("directory"));
}
}  // namespace
}  // namespace optrush
