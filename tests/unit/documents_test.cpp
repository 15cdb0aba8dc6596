// Documents: reading the files and making sequences.
#include "data/document_rows.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "base/temporary_folder.h"
#include "data/batches.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DocumentsTest : public ::testing::Test {
 protected:
  fs::path written(const std::string& text, const std::string& name = "data.jsonl") const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  Documents documents(const std::string& text) const { return {written(text), {}, 1000}; }
  std::string refusal(const std::string& text) const {
    return error_of([&] { (void)documents(text); });
  }
  const TemporaryFolder folder_;
};

std::vector<uint32_t> tokens_of(const Documents& documents, int64_t i) {
  const auto tokens = documents.tokens(i);
  return {tokens.begin(), tokens.end()};
}

int64_t first_trained(const Documents& documents, int64_t i) { return documents.trained(i).front().begin; }

TEST_F(DocumentsTest, EachFormIsRead) {
  const Documents read = documents(R"({"prompt": "ab", "completion": "c", "id": 7}

{"text": "de"}
{"tokens": [5, 300, 2], "prompt_tokens": 1})");
  ASSERT_EQ(read.count(), 3);
  EXPECT_THAT(tokens_of(read, 0), ElementsAre('a', 'b', 'c', 0));
  EXPECT_THAT(tokens_of(read, 1), ElementsAre('d', 'e', 0));
  EXPECT_THAT(tokens_of(read, 2), ElementsAre(5, 300, 2));
  EXPECT_EQ(first_trained(read, 0), 2);
  EXPECT_EQ(first_trained(read, 1), 1) << "nothing predicts the first token";
  EXPECT_EQ(first_trained(read, 2), 1);
  EXPECT_EQ(read.vocab_size(), 301);
}

TEST_F(DocumentsTest, LossIsTakenOnTheNamedSpans) {
  const auto read = [&](const std::string& spans) {
    return documents(R"({"tokens": [10, 11, 12, 13, 14, 15, 16], "trained": )" + spans + "}");
  };
  const auto labels = [&](const std::string& spans, int64_t seq_len) {
    const DocumentRows rows(read(spans), seq_len, 1, one_document_each);
    std::vector<int64_t> tokens(8), labels(8), positions(8);
    std::vector<int32_t> order(8);
    const int64_t counted = rows.fill(0, {tokens, labels, positions, order});
    labels.resize(static_cast<size_t>(seq_len));
    EXPECT_EQ(counted, std::ranges::count_if(labels, [](int64_t label) { return label != kIgnoredLabel; }));
    return labels;
  };
  constexpr int64_t kNone = kIgnoredLabel;
  EXPECT_THAT(labels("[[2, 4], [6, 7]]", 8), ElementsAre(kNone, 12, 13, kNone, kNone, 16, kNone, kNone));
  EXPECT_THAT(labels("[[2, 4], [6, 7]]", 4), ElementsAre(kNone, 12, 13, kNone)) << "cut";
  EXPECT_THAT(labels("[[0, 3], [3, 4]]", 6), ElementsAre(11, 12, 13, kNone, kNone, kNone)) << "side by side";
  EXPECT_THAT(read("[[2, 4], [6, 7]]").trained(0), ElementsAre(TokenSpan{2, 4}, TokenSpan{6, 7}));
  for (const char* none : {"[]", "[[0, 1]]", "[[6, 7]]"})
    EXPECT_THAT(error_of([&] { DocumentRows(read(none), 5, 1, one_document_each); }),
                HasSubstr("no document is left for training"));
  const auto refused = [&](const std::string& rest, const std::string& what) {
    EXPECT_THAT(refusal(R"({"tokens": [1, 2, 3], )" + rest + "}"),
                ::testing::AllOf(HasSubstr("data.jsonl:1"), HasSubstr(what)));
  };
  refused(R"("trained": 2)", "must be a list");
  refused(R"("trained": [[1, 4]])", "has [1,4] but the document has 3 tokens");
  refused(R"("trained": [[2]])", "has [2], which is not a pair");
  refused(R"("trained": [[-1, 2]])", "has [-1,2]");
  refused(R"("trained": [[2, 2]])", "which is empty");
  refused(R"("trained": [[1, 3], [0, 1]])", "has [0,1], which starts before the end of the range before it");
  refused(R"("trained": [[0, 1]], "prompt_tokens": 1)", "either 'prompt_tokens' or 'trained'");
}

TEST_F(DocumentsTest, EachFileOfAFolderIsADocument) {
  written("two", "texts/b.txt");
  written("one", "texts/a.txt");
  written("", "texts/empty.txt");
  written("no", "texts/c.md");
  const Documents read(folder_ / "texts", {".txt"}, 1000);
  ASSERT_EQ(read.count(), 2);
  EXPECT_THAT(tokens_of(read, 0), ElementsAre('o', 'n', 'e', 0));
  EXPECT_THAT(tokens_of(read, 1), ElementsAre('t', 'w', 'o', 0));
  written("\xff", "texts/d.txt");
  EXPECT_THAT(error_of([&] { Documents(folder_ / "texts", {".txt"}, 1000); }),
              testing::is_error("invalid_file", "d.txt", "0"));
}

TEST_F(DocumentsTest, InvalidLinesAreRefusedWithTheirNumber) {
  EXPECT_THAT(refusal("{\"text\": \"a\"}\n{\"text\": 3}"), HasSubstr("data.jsonl:2"));
  EXPECT_THAT(refusal("{\"text\": \"a\"}\n{\"text\": 3}"), HasSubstr("'text' must be a string"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("JSON array"));
  EXPECT_THAT(refusal("7"), HasSubstr("must be a JSON object"));
  EXPECT_THAT(refusal("{\"text\""), HasSubstr("data.jsonl:1"));
  EXPECT_THAT(refusal("{\"prompt\": \"a\"}"), HasSubstr("no token to train on"));
  EXPECT_THAT(refusal("{\"messages\": []}"), HasSubstr("optrush tokenize"));
  EXPECT_THAT(refusal("{\"tokens\": [1]}"), HasSubstr("at least two tokens"));
  EXPECT_THAT(refusal("{\"tokens\": [1, -2]}"), HasSubstr("'tokens' has -2"));
  EXPECT_THAT(refusal("{\"tokens\": [1, 2.5]}"), HasSubstr("'tokens' has 2.5"));
  EXPECT_THAT(refusal("{\"tokens\": 3}"), HasSubstr("a list of token ids"));
  EXPECT_THAT(refusal("{\"tokens\": [1, 2], \"prompt_tokens\": 3}"), HasSubstr("0 to 2"));
  EXPECT_THAT(refusal("\n  \n"), HasSubstr("has no documents"));
}

/// One sequence.
struct Filled {
  std::vector<int64_t> tokens, labels, positions;
  std::vector<int32_t> documents;
  RowContent content;
  int64_t counted;

  Filled(const DocumentRows& rows, int64_t index, size_t length)
      : tokens(length),
        labels(length),
        positions(length),
        documents(length),
        content(rows.content(index, {})),
        counted(rows.fill(index, view())) {}
  RowView view() { return {tokens, labels, positions, documents}; }
};

TEST_F(DocumentsTest, ASequenceIsADocumentWithPadding) {
  const DocumentRows rows(documents(R"({"tokens": [11, 12, 13, 14], "prompt_tokens": 2})"), 5, 1,
                          one_document_each);
  const Filled filled(rows, 0, 5);
  EXPECT_THAT(filled.tokens, ElementsAre(11, 12, 13, 0, 0));
  EXPECT_THAT(filled.labels, ElementsAre(-100, 13, 14, -100, -100)) << "prompt tokens have no label";
  EXPECT_EQ(filled.counted, 2);
  EXPECT_EQ(filled.content.tokens, 3) << "prompt tokens count, padding does not";
  EXPECT_EQ(filled.content.pairs, 3 * 3);
  EXPECT_EQ(filled.counted, 2);
  EXPECT_EQ(rows.most_documents(), 1);
  EXPECT_EQ(rows.description(), "1 document in 1 sequence, 60 % of their positions filled");
}

TEST_F(DocumentsTest, PositionsRestartWithEachDocumentOfASequence) {
  const auto lay = [](std::span<const int64_t>, int64_t) { return Rows{{1, 0}}; };
  const DocumentRows rows(documents("{\"tokens\": [1, 2, 3]}\n{\"tokens\": [4, 5]}"), 5, 1, lay);
  const Filled filled(rows, 0, 5);
  EXPECT_THAT(filled.tokens, ElementsAre(4, 1, 2, 0, 0));
  EXPECT_THAT(filled.labels, ElementsAre(5, 2, 3, -100, -100));
  EXPECT_THAT(filled.positions, ElementsAre(0, 0, 1, 0, 1));
  EXPECT_THAT(filled.documents, ElementsAre(0, 1, 1, 2, 2));
  EXPECT_EQ(rows.most_documents(), 3) << "padding counts as a document";
  EXPECT_EQ(rows.longest(), 2);
}

TEST_F(DocumentsTest, LongDocumentsAreCutAndPromptsThatFillASequenceSkipped) {
  const DocumentRows rows(documents(R"({"tokens": [1, 2, 3, 4, 5, 6]}
{"tokens": [1, 2, 3, 4, 5], "prompt_tokens": 4}
{"tokens": [1, 2, 3, 4, 5], "prompt_tokens": 3}
{"tokens": [7, 8], "prompt_tokens": 2})"),
                          3, 1, one_document_each);
  EXPECT_EQ(rows.description(),
            "2 documents in 2 sequences, 100 % of their positions filled; 2 were cut at 4 tokens; "
            "skipped documents without a trained token: 1; "
            "skipped documents whose first trained token is beyond the sequence length: 1");
  EXPECT_TRUE(rows.leaves_out_many());
  for (int64_t i = 0; i < 2; ++i) EXPECT_GT(Filled(rows, i, 3).counted, 0);
}

TEST_F(DocumentsTest, OverFivePercentLeftOutAreMany) {
  const auto many = [&](int64_t whole) {
    std::string lines = "{\"tokens\": [1, 2], \"trained\": []}\n";
    for (int64_t i = 0; i < whole; ++i) lines += "{\"tokens\": [1, 2]}\n";
    return DocumentRows(documents(lines), 4, 1, one_document_each).leaves_out_many();
  };
  EXPECT_TRUE(many(18));
  EXPECT_FALSE(many(19));
}

TEST_F(DocumentsTest, DocumentsWithoutATrainedTokenAreCountedApart) {
  const DocumentRows rows(documents(R"({"tokens": [1, 2, 3], "trained": []}
{"tokens": [1, 2, 3], "trained": [[0, 1]]}
{"tokens": [1, 2, 3], "prompt_tokens": 3}
{"tokens": [1, 2, 3, 4, 5, 6, 7, 8], "prompt_tokens": 8}
{"tokens": [1, 2, 3, 4, 5, 6, 7, 8], "trained": [[6, 7]]}
{"tokens": [1, 2, 3], "trained": [[1, 2]]})"),
                          4, 1, one_document_each);
  EXPECT_EQ(rows.description(),
            "1 document in 1 sequence, 50 % of their positions filled; "
            "skipped documents without a trained token: 4; "
            "skipped documents whose first trained token is beyond the sequence length: 1");
  EXPECT_THAT(error_of([&] {
                DocumentRows(documents(R"({"tokens": [1, 2], "trained": []})"), 4, 1, one_document_each);
              }),
              HasSubstr("skipped documents without a trained token: 1"));
}

TEST_F(DocumentsTest, EpochsAreShuffledAndTheLastDocumentsHeldOut) {
  std::string text;
  for (int i = 1; i <= 20; ++i) text += "{\"tokens\": [" + std::to_string(i) + ", 0]}\n";
  const DocumentRows rows(documents(text), 2, 3, one_document_each, {.held_out = 4});
  std::vector<std::vector<int64_t>> epochs(2);
  for (int64_t i = 0; i < 32; ++i)
    epochs[static_cast<size_t>(i / 16)].push_back(Filled(rows, i, 2).tokens[0]);
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : epochs) {
    std::ranges::sort(epoch);
    for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(epoch[static_cast<size_t>(i)], i + 1);
  }
  const DocumentRows held(documents(text), 2, 3, one_document_each, {.held_out = 4, .gives_held_out = true});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(Filled(held, i, 2).tokens[0], 17 + i);
  EXPECT_THAT(error_of([&] { DocumentRows(documents(text), 2, 3, one_document_each, {.held_out = 20}); }),
              HasSubstr("no document is left for training: validate holds out 20 of 20 documents"));
}

TEST_F(DocumentsTest, APairIsTwoAnswersToOnePrompt) {
  const Documents read(written(R"({"prompt": "ab", "chosen": "c", "rejected": "de"}
{"prompt": [5, 300], "chosen": [2], "rejected": [9, 9]})"),
                       {}, 1000, Documents::Form::pairs);
  ASSERT_EQ(read.count(), 4);
  EXPECT_EQ(read.together(), 2);
  EXPECT_THAT(tokens_of(read, 0), ElementsAre('a', 'b', 'c', 0));
  EXPECT_THAT(tokens_of(read, 1), ElementsAre('a', 'b', 'd', 'e', 0));
  EXPECT_THAT(tokens_of(read, 2), ElementsAre(5, 300, 2));
  EXPECT_THAT(tokens_of(read, 3), ElementsAre(5, 300, 9, 9));
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(first_trained(read, i), 2);
  EXPECT_EQ(read.vocab_size(), 301);
  const auto refused = [&](const std::string& line, const std::string& what) {
    EXPECT_THAT(error_of([&] { Documents(written(line), {}, 1000, Documents::Form::pairs); }),
                ::testing::AllOf(HasSubstr("data.jsonl:1"), HasSubstr(what)));
  };
  refused(R"({"prompt": "a", "chosen": "b"})", "'rejected' is missing");
  refused(R"({"prompt": "a", "chosen": 7, "rejected": "c"})", "'chosen' is neither text nor token ids");
  refused(R"({"prompt": "", "chosen": [], "rejected": "c"})", "'prompt' is empty");
  refused(R"({"prompt": [1], "chosen": [-1], "rejected": "c"})", "'chosen' has -1");
  refused(R"({"tokens": [1, 2]})", "'prompt' is missing");
}

TEST_F(DocumentsTest, TextsArePairedByTheirHalves) {
  written("abcd", "texts/1.txt");
  written("vwxyz", "texts/2.txt");
  const Documents read(folder_ / "texts", {}, 1000, Documents::Form::pairs);
  ASSERT_EQ(read.count(), 4);
  EXPECT_THAT(tokens_of(read, 0), ElementsAre('a', 'b', 'c', 'd', 0));
  EXPECT_THAT(tokens_of(read, 1), ElementsAre('a', 'b', 'x', 'y', 0));
  EXPECT_THAT(tokens_of(read, 2), ElementsAre('v', 'w', 'x', 'y', 'z', 0));
  EXPECT_THAT(tokens_of(read, 3), ElementsAre('v', 'w', 'c', 'd', 0));
  written("alone", "one/1.txt");
  EXPECT_THAT(error_of([&] { Documents(folder_ / "one", {}, 1000, Documents::Form::pairs); }),
              HasSubstr("two texts"));
  for (const char* text : {"1.txt", "2.txt", "3.txt"})
    written(std::string("ABsame") + (text[0] == '3' ? "!" : "E"), std::string("alike/") + text);
  const Documents alike(folder_ / "alike", {}, 4, Documents::Form::pairs);  // the last four bytes of each
  EXPECT_THAT(tokens_of(alike, 0), ElementsAre('a', 'm', 'e', 'E'));
  EXPECT_THAT(tokens_of(alike, 1), ElementsAre('a', 'm', 'e', '!'))
      << "the next document is the same and is skipped";
}

TEST_F(DocumentsTest, PairsStayTogether) {
  std::string text;
  for (int i = 1; i <= 12; ++i)
    text += "{\"prompt\": [" + std::to_string(i) + (i == 3 ? ", 0, 0, 0, 0" : "") +
            "], \"chosen\": [100, 1], \"rejected\": [101]}\n";
  const auto pairs = [&] { return Documents(written(text), {}, 1000, Documents::Form::pairs); };
  const auto never = [](std::span<const int64_t>, int64_t) -> Rows {
    throw std::logic_error("pairs are not laid");
  };
  const DocumentRows rows(pairs(), 4, 3, never, {.held_out = 4});
  EXPECT_EQ(rows.count(), 18) << "two of 12 pairs are held out, and one prompt fills the sequence";
  std::vector<std::vector<int64_t>> epochs(2);
  for (int64_t i = 0; i < 36; i += 2) {
    const Filled chosen(rows, i, 4), rejected(rows, i + 1, 4);
    EXPECT_EQ(chosen.tokens[0], rejected.tokens[0]) << "both have the same prompt";
    EXPECT_THAT(chosen.labels, ElementsAre(100, 1, -100, -100));
    EXPECT_THAT(rejected.labels, ElementsAre(101, -100, -100, -100));
    epochs[static_cast<size_t>(i / 18)].push_back(chosen.tokens[0]);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : epochs) {
    std::ranges::sort(epoch);
    EXPECT_THAT(epoch, ElementsAre(1, 2, 4, 5, 6, 7, 8, 9, 10));
  }
  const DocumentRows held(pairs(), 4, 3, never, {.held_out = 4, .gives_held_out = true});
  EXPECT_EQ(Filled(held, 2, 4).tokens[0], 12);
  EXPECT_THAT(error_of([&] { DocumentRows(pairs(), 4, 3, never, {.held_out = 3}); }),
              testing::is_error("invalid_value", "validate.sequences"));
}

TEST_F(DocumentsTest, PairsThatAreEqualWithinASequenceAreSkipped) {
  const std::string fine = R"({"prompt": [1, 2], "chosen": [3, 4, 5], "rejected": [3, 4, 6]})";
  const std::string cut = R"({"prompt": [1, 2], "chosen": [3, 4, 7, 8], "rejected": [3, 4, 7, 9]})";
  const std::string same = R"({"prompt": [1, 2], "chosen": [3], "rejected": [3]})";
  const std::string shorter = R"({"prompt": [1, 2], "chosen": [3, 4, 7], "rejected": [3, 4]})";
  const auto rows = [&](const std::string& text, int64_t seq_len) {
    return DocumentRows(Documents(written(text), {}, seq_len + 2, Documents::Form::pairs), seq_len, 1,
                        one_document_each);
  };
  const auto text = fine + "\n" + cut + "\n" + same + "\n" + shorter + "\n";
  const DocumentRows at_four = rows(text, 4), at_five = rows(text, 5);
  EXPECT_EQ(at_four.count(), 4) << "a sequence of 4 positions shows 5 tokens";
  EXPECT_THAT(at_four.description(), ::testing::AllOf(HasSubstr("identical answers: 1"),
                                                      HasSubstr("beyond the sequence length: 1")));
  EXPECT_EQ(at_five.count(), 6) << "the sixth token differs";
  EXPECT_THAT(error_of([&] { rows(cut + "\n" + same, 4); }),
              ::testing::AllOf(HasSubstr("no document is left for training"),
                               HasSubstr("identical answers: "), HasSubstr("beyond the sequence length")));
}

TEST_F(DocumentsTest, TextIsRefusedIfTheModelHasATokenizer) {
  const auto refused = [&](const std::string& line, Documents::Form form) {
    EXPECT_THAT(error_of([&] { Documents(written(line), {}, 100, form, "llama"); }),
                ::testing::AllOf(HasSubstr("data.jsonl:1"), HasSubstr("read as bytes"),
                                 HasSubstr("optrush tokenize FILE tokens.jsonl --model llama")));
  };
  refused(R"({"text": "a"})", Documents::Form::single);
  refused(R"({"prompt": "a", "completion": "b"})", Documents::Form::single);
  refused(R"({"prompt": "a", "chosen": "b", "rejected": "c"})", Documents::Form::pairs);
  written("abc", "folder/a.txt");
  EXPECT_THAT(error_of([&] { Documents(folder_ / "folder", {}, 100, Documents::Form::single, "llama"); }),
              HasSubstr("read as bytes"));
  const Documents tokens(written(R"({"tokens": [1, 2], "text": "passed over"})"), {}, 100,
                         Documents::Form::single, "llama");
  EXPECT_EQ(tokens.count(), 1);
}

TEST_F(DocumentsTest, LineThatIsNotADocumentNamesItsFields) {
  EXPECT_THAT(refusal(R"({"question": "a", "answer": "b"})"), HasSubstr("it has 'question', 'answer'"));
  for (const char* chat :
       {R"({"messages": []})", R"({"conversations": [{"from": "human", "value": "a"}]})",
        R"({"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant"}]})"})
    EXPECT_THAT(refusal(chat), ::testing::AllOf(HasSubstr("data.jsonl:1"), HasSubstr("chat template"),
                                                HasSubstr("optrush tokenize")));
  EXPECT_THAT(refusal("[{\"text\": \"a\"}]"), ::testing::AllOf(HasSubstr("JSON array"), HasSubstr("jq -c")));
  EXPECT_THAT(
      refusal("{\"text\": \"a\"}\n{\"text\": \"b}\n"),
      ::testing::AllOf(HasSubstr("data.jsonl:2"), HasSubstr("column"), ::testing::Not(HasSubstr("line 1"))));
  EXPECT_EQ(documents("\xef\xbb\xbf{\"text\": \"a\"}\r\n{\"text\": \"b\"}\r\n").count(), 2)
      << "a byte order mark, and line ends of Windows";
  EXPECT_EQ(documents("{\"text\":\r\"a\"}\r\n \r{\"text\": \"b\"}\r").count(), 2)
      << "a carriage return alone is white space";
  EXPECT_THAT(refusal("{\"text\": \"a\"}\r{\"text\": \"b\"}"), HasSubstr("data.jsonl:1"));
}

TEST_F(DocumentsTest, PluginWithAnInvalidLayoutIsNamed) {
  const auto refusal = [&](const Rows& rows) {
    return error_of([&] {
      DocumentRows(documents("{\"tokens\": [1, 2, 3]}\n{\"tokens\": [4, 5]}"), 2, 1,
                   [&](std::span<const int64_t>, int64_t) { return rows; });
    });
  };
  EXPECT_THAT(refusal({{0}, {0}}), HasSubstr("document 0 occurs twice"));
  EXPECT_THAT(refusal({{0}, {2}}), HasSubstr("there is no document 2"));
  EXPECT_THAT(refusal({{0, 1}}), HasSubstr("a sequence of 2 positions has documents of 3"));
  EXPECT_THAT(refusal({{0}}), HasSubstr("1 document in no sequence"));
  EXPECT_THAT(refusal({{0}, {}, {1}}), HasSubstr("a sequence is empty"));
}

TEST_F(DocumentsTest, BatchesCountTheirLabelsAndNameTheirDocuments) {
  RunSpec spec = nano_spec();
  spec.data = {.kind = "documents", .path = written(R"({"tokens": [1, 2, 3, 4], "prompt_tokens": 2}
{"tokens": [5, 6]}
{"tokens": [7, 8, 9]})")};
  spec.train.micro_batch = 1;
  spec.train.seq_len = 7;
  Trained run(spec);
  const Session& session = run.session();
  const auto alone = Batches(spec, session.model(), session.mesh(), at::kCPU).step(0).at(0);
  EXPECT_FALSE(alone.segments.defined());
  EXPECT_EQ(alone.valid_tokens, alone.labels.ne(-100).sum().item<int64_t>());
  const auto lay = [](std::span<const int64_t>, int64_t) { return Rows{{0, 1, 2}}; };
  const Batch packed = Batches(spec, session.model(), session.mesh(), at::kCPU, lay).step(0).at(0);
  EXPECT_EQ(packed.valid_tokens, 2 + 1 + 2);
  EXPECT_TRUE(at::equal(packed.segments.ids, at::tensor({0, 0, 0, 1, 2, 2, 3}, at::kInt).unsqueeze(0)));
  EXPECT_TRUE(at::equal(packed.segments.cu_seqlens, at::tensor({0, 3, 4, 6, 7}, at::kInt)));
  EXPECT_EQ(packed.segments.max_seqlen, 3);
  EXPECT_EQ(packed.segments.pairs, 9 + 1 + 4 + 1) << "attention computes padding";
  const StepContent content = Batches(spec, session.model(), session.mesh(), at::kCPU, lay).content(0);
  EXPECT_EQ(content.tokens, 3 + 1 + 2);
  EXPECT_EQ(content.positions, 7);
  EXPECT_EQ(content.pairs, 9 + 1 + 4);
  const auto two = [](std::span<const int64_t>, int64_t) { return Rows{{0}, {1, 2}}; };
  for (int64_t step = 0; step < 2; ++step)
    EXPECT_EQ(
        Batches(spec, session.model(), session.mesh(), at::kCPU, two).step(step).at(0).segments.max_seqlen, 4)
        << "padding counts as a document, and all batches have the same number of documents";
}

TEST_F(DocumentsTest, EachDocumentIsValidatedOnce) {
  RunSpec spec = nano_spec();
  spec.data = {.kind = "documents", .path = written(R"({"tokens": [1, 2, 3]}
{"tokens": [4, 5, 6]}
{"tokens": [7, 8, 9, 7, 8, 9], "prompt_tokens": 6}
{"tokens": [2, 3]})")};
  spec.train.micro_batch = 4;
  spec.train.seq_len = 4;
  spec.validate.every = 1;
  spec.validate.sequences = 3;
  Trained run(spec);
  const Session& session = run.session();
  const Batches batches(spec, session.model(), session.mesh(), at::kCPU);
  const auto validation = batches.validation();
  ASSERT_EQ(validation.size(), 1U);
  EXPECT_EQ(validation[0].valid_tokens, 2 + 1) << "the prompt of one fills a sequence";
  EXPECT_THAT(batches.description(), HasSubstr("validation has 2 of 3 documents"));
}
}  // namespace
}  // namespace optrush::testing
