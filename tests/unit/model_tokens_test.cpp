// Tokenizing texts, prompts and chats with a checkpoint's tokenizer: when it runs, when the cache is used,
// and refusals. The Python here is a script that records its arguments. tests/parity uses a real tokenizer.
#include "cli/model_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

class ModelTokensTest : public ::testing::Test {
 protected:
  ModelTokensTest() {
    ::setenv("OPTRUSH_CACHE", (folder_ / "cache").c_str(), 1);
    python(
        "echo \"$@\" >> " + (folder_ / "calls").string() +
        "; echo '{\"tokens\": [1, 2]}' > \"$4\"; echo '1 line, 2 tokens'; echo 'rush.documents reads them'");
    model("llama", 500);
    write_file(folder_ / "llama/tokenizer.json", "{}");
  }
  ~ModelTokensTest() override {
    ::unsetenv("OPTRUSH_CACHE");
    ::unsetenv("OPTRUSH_PYTHON");
  }
  void python(const std::string& body) {
    write_file(folder_ / "python", "#!/bin/sh\n" + body + "\n");
    fs::permissions(folder_ / "python", fs::perms::owner_all);
    ::setenv("OPTRUSH_PYTHON", (folder_ / "python").c_str(), 1);
  }
  void model(const std::string& name, int64_t vocabulary) {
    fs::create_directories(folder_ / name);
    write_json(folder_ / name / "config.json", {{"architectures", {"LlamaForCausalLM"}},
                                                {"vocab_size", vocabulary},
                                                {"hidden_size", 32},
                                                {"num_hidden_layers", 2},
                                                {"num_attention_heads", 4},
                                                {"intermediate_size", 48},
                                                {"max_position_embeddings", 4096}});
  }
  std::string file(const std::string& name, const std::string& content) {
    fs::create_directories((folder_ / name).parent_path());
    write_file(folder_ / name, content);
    return folder_ / name;
  }
  RunSpec spec(const DataSpec& data, const std::string& checkpoint = "llama") {
    RunSpec made{.data = data};
    if (!checkpoint.empty()) made.model = {{"checkpoint", (folder_ / checkpoint).string()}};
    return made;
  }
  DataSpec tokens(const RunSpec& spec) {
    ModelTokens made([&](const std::string& line) { notes_.push_back(line); });
    return made.of(spec, "x.lua:7").data;
  }
  std::string refusal(const RunSpec& spec) {
    return error_of([&] { tokens(spec); });
  }
  std::vector<std::string> calls() {
    std::vector<std::string> lines;
    std::ifstream stream(folder_ / "calls");
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  const TemporaryFolder folder_;
  std::vector<std::string> notes_;
};

TEST_F(ModelTokensTest, TextIsTokenizedOnceByTheTokenizerOfTheModel) {
  const auto chats = file("chats.jsonl", "\xef\xbb\xbf\n{\"messages\": []}\n");
  const DataSpec made = tokens(spec({.kind = "documents", .path = chats}));
  EXPECT_EQ(made.kind, "documents");
  EXPECT_EQ(fs::path(made.path).parent_path(), folder_ / "cache/tokens");
  EXPECT_EQ(read_file(made.path), "{\"tokens\": [1, 2]}\n");
  ASSERT_EQ(calls().size(), 1U);
  EXPECT_THAT(calls()[0], AllOf(HasSubstr("tokenize_documents.py " + chats),
                                HasSubstr("--model " + (folder_ / "llama").string())));
  EXPECT_EQ(notes_.back(), "chats.jsonl: 1 line, 2 tokens");
  EXPECT_EQ(tokens(spec({.kind = "documents", .path = chats})).path, made.path);
  EXPECT_EQ(calls().size(), 1U) << "the tokens are in the cache";
  EXPECT_EQ(notes_.back(), "chats.jsonl: 1 line, 2 tokens") << "the note is printed again";
  const auto moved = file("deeper/chats.jsonl", read_file(chats));
  EXPECT_EQ(tokens(spec({.kind = "documents", .path = moved})).path, made.path)
      << "the cache depends on the contents";
  file("chats.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_NE(tokens(spec({.kind = "documents", .path = chats})).path, made.path);
  file("llama/tokenizer.json", "{ }");
  tokens(spec({.kind = "documents", .path = chats}));
  EXPECT_EQ(calls().size(), 3U) << "other contents, another tokenizer";
}

TEST_F(ModelTokensTest, EachKindHasItsOptions) {
  file("texts/a.h", "a");
  file("texts/b.txt", "b");
  const std::string texts = folder_ / "texts";
  EXPECT_EQ(tokens(spec({.kind = "text", .path = texts, .extensions = {".h"}})).kind, "tokens");
  EXPECT_THAT(calls().back(), AllOf(HasSubstr("--token-file"), HasSubstr("--extension .h")));
  EXPECT_TRUE(tokens(spec({.kind = "documents", .path = texts, .extensions = {".h"}})).extensions.empty());
  EXPECT_THAT(calls().back(), ::testing::Not(HasSubstr("--token-file")));
  RunSpec pairs = spec({.kind = "preferences", .path = texts});
  pairs.train.seq_len = 30;
  tokens(pairs);
  EXPECT_THAT(calls().back(), HasSubstr("--pairs-of-texts 32"));
}

TEST_F(ModelTokensTest, APlanDoesNotTokenizeAText) {
  const auto text = file("a.txt", std::string(4000, 'a'));
  ModelTokens planned([&](const std::string& line) { notes_.push_back(line); }, true);
  const RunSpec asked = spec({.kind = "text", .path = text});
  const DataSpec made = planned.of(asked, "x.lua:7").data;
  EXPECT_EQ(made.kind, "tokens");
  EXPECT_TRUE(calls().empty());
  EXPECT_THAT(notes_.back(), HasSubstr("will be tokenized when the experiment starts"));
  const std::string content = read_file(made.path);
  EXPECT_EQ(content.size(), 32 + 4 * 1000U) << "a header, and a token for four bytes";
  EXPECT_EQ(content.substr(0, 8), "ORTOKENS");
  const std::string tokenized = tokens(asked).path;
  EXPECT_NE(tokenized, made.path) << "a run has the tokens";
  ModelTokens later([](const std::string&) {}, true);
  EXPECT_EQ(later.of(asked, "x.lua:7").data.path, tokenized) << "a plan takes them from the cache";
}

TEST_F(ModelTokensTest, TokensAndByteModelsAreUnchanged) {
  const auto same = [&](const RunSpec& asked) { return tokens(asked).path == asked.data.path; };
  EXPECT_TRUE(
      same(spec({.kind = "documents", .path = file("t.jsonl", "{\"tokens\": [1, 2], \"messages\": 3}")})));
  EXPECT_TRUE(same(spec({.kind = "preferences",
                         .path = file("p.jsonl", R"({"prompt": [1], "chosen": [2], "rejected": [3]})")})));
  EXPECT_TRUE(same(spec({.kind = "random"})));
  const auto text = file("a.txt", "a");
  EXPECT_TRUE(same(spec({.kind = "text", .path = text}, ""))) << "no checkpoint";
  model("bytes", 256);
  EXPECT_TRUE(same(spec({.kind = "text", .path = text}, "bytes")));
  EXPECT_TRUE(calls().empty());
}

TEST_F(ModelTokensTest, UntokenizableDataIsRefusedAtTheLineOfTheScript) {
  const auto chats = file("chats.jsonl", R"({"messages": []})"), text = file("a.txt", "a");
  EXPECT_THAT(refusal(spec({.kind = "documents", .path = chats}, "")),
              AllOf(HasSubstr("x.lua:7"), HasSubstr("no tokenizer"), HasSubstr("optrush tokenize " + chats)));
  model("bare", 500);
  EXPECT_THAT(refusal(spec({.kind = "text", .path = text}, "bare")),
              AllOf(HasSubstr("x.lua:7"), HasSubstr("would be read as bytes")));
  python("echo 'optrush: error[invalid_file]: a.txt:3: it is wrong'; echo '  hint: mend it'; exit 1");
  EXPECT_THAT(refusal(spec({.kind = "text", .path = text})),
              AllOf(HasSubstr("x.lua:7: a.txt:3: it is wrong"), HasSubstr("mend it"),
                    HasSubstr("optrush tokenize " + text + " tokens.bin --model")));
  EXPECT_TRUE(!fs::exists(folder_ / "cache/tokens") || fs::is_empty(folder_ / "cache/tokens"));
  python("echo Traceback; exit 3");
  EXPECT_THAT(refusal(spec({.kind = "text", .path = text})),
              AllOf(HasSubstr("Traceback"), HasSubstr("optrush tokenize")));
}

TEST_F(ModelTokensTest, EveryRungHasTokensOfItsModel) {
  Experiment experiment{.name = "x", .base = spec({.kind = "text", .path = file("a.txt", "a")})};
  model("other", 600);
  file("other/tokenizer.json", "[]");
  const DataSpec documents{.kind = "documents", .path = file("b.jsonl", R"({"text": "b"})")};
  experiment.parts = {
      {.rungs = {{.name = "documents", .settings = {{"data", to_json(documents)}}, .where = "x.lua:5"}}}};
  ModelTokens made([](const std::string&) {});
  const auto variants = made.of(experiment).variants;
  EXPECT_EQ(variants.at(0).spec.data.kind, "tokens");
  EXPECT_EQ(variants.at(1).spec.data.kind, "documents");
  EXPECT_THAT(variants.at(1).spec.data.path, HasSubstr("cache/tokens/b-"));
  experiment.parts[0].rungs.push_back(
      {.name = "other",
       .settings = {{"model", {{"checkpoint", (folder_ / "other").string()}}}},
       .where = "x.lua:6"});
  EXPECT_THAT(error_of([&] { made.of(experiment); }),
              AllOf(HasSubstr("x.lua:6"), HasSubstr("another rung's tokenizer")))
      << "it uses the documents of the rung before it";
}
}  // namespace
}  // namespace optrush
