// The form of a data file, recognized by its first bytes and its first line.
#include "spec/data_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"

namespace optrush {
namespace {
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

class DataLine : public ::testing::Test {
 protected:
  std::string refusal(const std::string& name, const std::string& content, const std::string& kind) {
    write_file(folder_.path() / name, content);
    return error_of([&] { check_lines(folder_.path() / name, kind, "x.lua:3"); });
  }
  const TemporaryFolder folder_;
};

TEST_F(DataLine, FilesOfOtherFormatsAreNamedWithTheirConversion) {
  for (const std::string kind : {"documents", "preferences"}) {
    EXPECT_THAT(
        refusal("a.parquet", "PAR1\x15\x04", kind),
        AllOf(HasSubstr("x.lua:3"), HasSubstr("a.parquet' is a Parquet file"), HasSubstr("read_parquet"),
              HasSubstr((folder_.path() / "a.parquet").string() + "').to_json")));
    EXPECT_THAT(refusal("a.csv", "prompt,completion\nx,y\n", kind),
                AllOf(HasSubstr("is a CSV file"), HasSubstr("read_csv")));
    EXPECT_THAT(refusal("a.tsv", "prompt\tcompletion\n", kind), HasSubstr("sep='\\t'"));
    EXPECT_THAT(refusal("a.jsonl", "\x1f\x8b\x08 rest", kind),
                AllOf(HasSubstr("is a gzip file"), HasSubstr("unpack it first")));
    EXPECT_THAT(refusal("a.jsonl", std::string("PK\x03\x04 rest"), kind), HasSubstr("is a zip file"));
  }
  EXPECT_EQ(refusal("b.csv", "{\"text\": \"a\"}\n", "documents"), "") << "JSON lines under another name";
  EXPECT_EQ(refusal("empty.jsonl", "", "documents"), "") << "readers name it";
}

TEST_F(DataLine, DocumentsAndPairsAreNotMixedUp) {
  const std::string pair = R"({"prompt": "a", "chosen": "b", "rejected": "c"})", chat = R"({"messages": []})";
  for (const auto& text : {pair, "\xef\xbb\xbf\n" + pair, "[\n  " + pair + "]"})
    EXPECT_THAT(refusal("p.jsonl", text, "documents"),
                AllOf(HasSubstr("x.lua:3"), HasSubstr("pairs of answers"), HasSubstr("rush.preferences")));
  for (const auto& text : {chat, "[" + chat + "]", std::string(R"({"text": "a"})"),
                           std::string(R"({"prompt": "a", "completion": "b"})"),
                           std::string(R"({"instruction": "a", "output": "b"})")})
    EXPECT_THAT(refusal("d.jsonl", text, "preferences"),
                AllOf(HasSubstr("x.lua:3"), HasSubstr("not pairs of answers"), HasSubstr("rush.documents")));
  EXPECT_EQ(refusal("p.jsonl", pair, "preferences"), "");
  EXPECT_EQ(refusal("d.jsonl", chat, "documents"), "");
  EXPECT_EQ(refusal("broken.jsonl", "{\"chosen\"", "documents"), "") << "the reader names the place";
}
}  // namespace
}  // namespace optrush
