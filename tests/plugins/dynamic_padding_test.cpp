// Dynamic padding: sequences as long as the longest document of a micro-batch train like whole sequences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "data/batches.h"
#include "precision.h"
#include "support/error_of.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

const PluginUse kPadding = {"dynamic_padding", Json::object()};

class DynamicPaddingTest : public ::testing::Test {
 protected:
  /// Documents or pairs of 2 to 40 tokens, in sequences of 64.
  RunSpec spec(Stack stack, const std::string& kind = "documents") const {
    std::ofstream file(folder_ / kind);
    for (int i = 0; i < 24; ++i) {
      const auto tokens = [i](int from, int count) {
        std::vector<int> list;
        for (int j = 0; j < count; ++j) list.push_back((7 * i + 5 * j * j + from) % 64);
        return list;
      };
      if (kind == "preferences")
        file << Json{{"prompt", tokens(1, 3)},
                     {"chosen", tokens(2, 1 + i * 7 % 37)},
                     {"rejected", tokens(3, 1 + i * 5 % 31)}}
             << "\n";
      else
        file << Json{{"prompt_tokens", 1}, {"tokens", tokens(1, 2 + i * 7 % 39)}} << "\n";
    }
    RunSpec spec = nano_spec(std::move(stack));
    spec.data = {.kind = kind, .path = folder_ / kind};
    spec.train.dtype = "fp64";
    spec.train.micro_batch = 2;
    spec.train.accumulation = 2;
    spec.train.seq_len = 64;
    spec.train.steps = 6;
    return spec;
  }
  const TemporaryFolder folder_;
};

void expect_equal_training(const RunSpec& plain) {
  RunSpec shorter = plain;
  shorter.plugins.push_back(kPadding);
  const Json whole = Trained(plain).train(), cut = Trained(shorter).train();
  const auto expected = losses(whole), got = losses(cut);
  ASSERT_EQ(got.size(), expected.size());
  std::set<int64_t> lengths;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
    EXPECT_NEAR(cut["steps"][i]["grad_norm"].get<double>(), whole["steps"][i]["grad_norm"].get<double>(),
                1e-12);
    for (const char* count : {"tokens", "processed_tokens", "attention_pairs"})
      EXPECT_EQ(cut["steps"][i][count], whole["steps"][i][count]) << count;
    EXPECT_LT(cut["steps"][i]["positions"], whole["steps"][i]["positions"]);
    lengths.insert(cut["steps"][i]["positions"].get<int64_t>());
  }
  EXPECT_GT(lengths.size(), 1U) << "steps should have unequal lengths";
  const Json none = Json::array();  // without validations the field is absent
  const Json validated = cut.value("validation", none), expected_there = whole.value("validation", none);
  ASSERT_EQ(validated.size(), expected_there.size());
  for (size_t i = 0; i < validated.size(); ++i)
    EXPECT_NEAR(validated[i]["loss"].get<double>(), expected_there[i]["loss"].get<double>(), 1e-12);
}

TEST_F(DynamicPaddingTest, TrainsLikeWholeSequences) {
  for (const Stack& stack :
       {Stack{}, Stack{{"flash_attention", Json::object()}, {"fused_linear_cross_entropy", Json::object()}},
        Stack{{"activation_checkpointing", {{"policy", "full"}}}, {"prefetch", Json::object()}}}) {
    RunSpec plain = spec(stack);
    plain.validate.every = 2;
    plain.validate.sequences = 5;
    expect_equal_training(plain);
  }
}

TEST_F(DynamicPaddingTest, PairsTrainLikeWholeSequences) {
  expect_equal_training(spec({{"lora", {{"rank", 3}}}, {"dpo", Json::object()}}, "preferences"));
}

TEST_F(DynamicPaddingTest, AMicroBatchIsAsLongAsItsLongestDocument) {
  RunSpec run = spec({kPadding});
  run.train.micro_batch = 1;
  run.train.accumulation = 12;
  Trained trained(run);
  const Session& session = trained.session();
  const Batches batches(run, session.model(), session.mesh(), at::kCPU, one_document_each,
                        padding_of(session.recipe()));
  int64_t positions = 0;
  std::set<int64_t> lengths;
  for (const Batch& batch : batches.step(0)) {
    const int64_t length = batch.tokens.size(1);
    const int64_t longest =
        (batch.filled.defined() ? batch.filled.remainder(length).max().item<int64_t>() : length - 1) + 1;
    EXPECT_EQ(length, (longest + 15) / 16 * 16) << "rounded up to 16";
    EXPECT_EQ(batch.labels.sizes(), batch.tokens.sizes());
    EXPECT_EQ(batch.positions.sizes(), batch.tokens.sizes());
    positions += batch.tokens.numel();
    lengths.insert(length);
  }
  EXPECT_EQ(batches.content(0).positions, positions);
  EXPECT_GT(lengths.size(), 1U);
}

TEST_F(DynamicPaddingTest, ADocumentLongerThanASequenceIsCut) {
  RunSpec run = spec({kPadding});
  run.train.seq_len = 20;  // no multiple of 16
  const Json result = Trained(run).train();
  for (const Json& step : result["steps"]) EXPECT_LE(step["positions"].get<int64_t>(), 4 * 20);
}

TEST_F(DynamicPaddingTest, OtherDataAndFixedShapesAreRefused) {
  RunSpec other = spec({kPadding});
  other.data = {};
  EXPECT_THAT(error_of([&] { Trained run(other); }),
              HasSubstr("data of kind 'random' fill every sequence already"));
  for (const char* fixed : {"compile", "cuda_graphs", "packing", "pipeline_parallel"})
    EXPECT_THAT(error_of([&] {
                  Trained run(spec({kPadding, {fixed, Json::object()}}));
                }),
                HasSubstr(std::string("plugins 'dynamic_padding' and '") + fixed + "' conflict"));
}
}  // namespace
}  // namespace optrush::testing
