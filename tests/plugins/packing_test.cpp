// Packing: the rows, and equal training of packed and separate documents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <random>

#include "base/temporary_folder.h"
#include "pack.h"
#include "precision.h"
#include "support/error_of.h"

namespace optrush::testing {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Pack, PlacesTheLongestFirstIntoTheTightestRow) {
  const std::vector<int64_t> lengths = {2, 7, 3, 5, 1};
  // 7 | 5 | 3 into the 7 | 2 into the 5 | 1 into the 5
  EXPECT_THAT(packing::pack(lengths, 10), ElementsAre(ElementsAre(1, 2), ElementsAre(0, 3, 4)));
  EXPECT_TRUE(packing::pack({}, 10).empty());
}

TEST(Pack, PlacesEveryDocumentOnceAndNoTwoRowsFitIntoOne) {
  std::mt19937 generator(5);
  for (int trial = 0; trial < 50; ++trial) {
    const int64_t capacity = 1 + static_cast<int64_t>(generator() % 300);
    std::vector<int64_t> lengths(generator() % 400);
    for (auto& length : lengths) length = 1 + static_cast<int64_t>(generator()) % capacity;
    const Rows rows = packing::pack(lengths, capacity);
    EXPECT_EQ(rows, packing::pack(lengths, capacity));
    std::vector<int64_t> seen, filled;
    for (const auto& row : rows) {
      filled.push_back(0);
      for (const int64_t document : row) {
        seen.push_back(document);
        filled.back() += lengths[static_cast<size_t>(document)];
      }
      EXPECT_LE(filled.back(), capacity);
    }
    std::ranges::sort(seen);
    std::vector<int64_t> all(lengths.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
    std::ranges::sort(filled);
    if (filled.size() > 1) {
      EXPECT_GT(filled[0] + filled[1], capacity);
    }
  }
}

class PackingTest : public ::testing::Test {
 protected:
  /// Eight documents of 9 and 7 tokens, with 8 and 6 positions. A step has all of them, one or two in a
  /// sequence.
  RunSpec spec(Stack stack, bool packed) const {
    std::ofstream file(folder_ / "data.jsonl");
    for (int i = 0; i < 8; ++i) {
      file << R"({"prompt_tokens": )" << i % 4 << R"(, "tokens": [)";
      for (int j = 0; j < (i % 2 == 0 ? 9 : 7); ++j) file << (j > 0 ? "," : "") << (7 * i + 5 * j * j) % 64;
      file << "]}\n";
    }
    if (packed) stack.push_back({"packing", Json::object()});
    RunSpec spec = nano_spec(std::move(stack));
    spec.data = {.kind = "documents", .path = folder_ / "data.jsonl"};
    spec.train.dtype = "fp64";
    spec.train.micro_batch = packed ? 4 : 8;
    spec.train.seq_len = 14;
    spec.train.steps = 4;
    return spec;
  }
  const TemporaryFolder folder_;
};

TEST_F(PackingTest, PackedDocumentsTrainLikeSeparateDocuments) {
  for (const Stack& stack : {Stack{}, Stack{{"flash_attention", Json::object()}},
                             Stack{{"activation_checkpointing", {{"policy", "full"}}}}}) {
    const Json alone = Trained(spec(stack, false)).train(), packed = Trained(spec(stack, true)).train();
    const auto expected = losses(alone), got = losses(packed);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
      EXPECT_NEAR(packed["steps"][i]["grad_norm"].get<double>(), alone["steps"][i]["grad_norm"].get<double>(),
                  1e-12);
      EXPECT_EQ(packed["steps"][i]["tokens"], alone["steps"][i]["tokens"]);
    }
  }
}

/// Of the layers, 1 has keys and values that 2 and 3 use.
TEST_F(PackingTest, PackedDocumentsOfSharedKeysTrainLikeSeparateDocuments) {
  const auto trained = [&](bool packed, Stack stack) {
    RunSpec run = spec(std::move(stack), packed);
    run.model.update({{"n_layers", 4}, {"kv_shared_layers", 2}, {"per_layer_input_dim", 6}});
    return losses(Trained(run).train());
  };
  const auto expected = trained(false, {});
  for (const char* policy : {"full", "selective", "budget", "offload"}) {
    const auto got = trained(true, {{"activation_checkpointing", {{"policy", policy}}}});
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got.at(i), expected[i], 1e-10) << policy << i;
  }
}

/// Its state and its convolution start anew with each document.
TEST_F(PackingTest, PackedDocumentsOfLinearAttentionTrainLikeSeparateDocuments) {
  const Json delta_net = {{"key_heads", 2}, {"value_heads", 4}, {"key_dim", 6}, {"value_dim", 10}};
  const Json mamba = {{"heads", 4}, {"groups", 2}, {"head_dim", 10}, {"state", 6}};
  for (const auto& kind : {std::pair("delta_net", delta_net), std::pair("mamba", mamba)}) {
    SCOPED_TRACE(kind.first);
    const auto trained = [&](bool packed, Stack stack) {
      RunSpec run = spec(std::move(stack), packed);
      run.model[kind.first] = kind.second;
      run.model["init_std"] = 0.3;
      return Trained(run).train();
    };
    const Json alone = trained(false, {});
    for (const Stack& stack : {Stack{}, Stack{{"activation_checkpointing", {{"policy", "full"}}}}}) {
      const Json packed = trained(true, stack);
      for (size_t i = 0; i < losses(alone).size(); ++i) {
        EXPECT_NEAR(losses(packed).at(i), losses(alone)[i], 1e-10) << i;
        const double norm = alone["steps"][i]["grad_norm"];
        EXPECT_NEAR(packed["steps"][i]["grad_norm"].get<double>(), norm, 1e-9 * norm);
      }
    }
  }
}

/// The sum of a field over the timed steps.
double sum_of(const Json& result, const char* field) {
  double sum = 0;
  for (const Json& step : result["steps"])
    if (step["timed"].get<bool>()) sum += step[field].get<double>();
  return sum;
}

/// FLOPs of a token of the nano model, and of a pair of positions: 12 L heads head_dim. A fused causal kernel
/// has seven products where the plain form has six, and computes half of each.
constexpr double kMatmuls = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32) + 64 * 32;
constexpr double kDense = 6 * kMatmuls, kPair = 12.0 * 2 * 32, kFused = 3.5 / 6;
const Stack kFlash = {{"flash_attention", Json::object()}};

TEST_F(PackingTest, FlopsCountOnlyDocuments) {
  for (const bool flash : {false, true}) {
    SCOPED_TRACE(flash);
    const Stack stack = flash ? kFlash : Stack{};
    // Four documents of 8 tokens and four of 6, in rows of 14.
    const double tokens = 4 * 8 + 4 * 6, pairs = 4 * 64 + 4 * 36, computed = flash ? kPair * kFused : kPair;
    const Json alone = Trained(spec(stack, false)).train(), packed = Trained(spec(stack, true)).train();
    for (const Json& result : {alone, packed}) {
      const Json& flops = result["flops_per_token"];
      EXPECT_DOUBLE_EQ(flops["mfu"], kDense + kPair * pairs / tokens);
      EXPECT_DOUBLE_EQ(flops["mfu_causal"], kDense + kPair / 2 * pairs / tokens);
      EXPECT_EQ(result["tokens_per_step"]["processed"], tokens);
      EXPECT_LT(result["tokens_per_step"]["trained"], tokens);
      EXPECT_EQ(result["steps"][0]["attention_pairs"], pairs);
    }
    EXPECT_DOUBLE_EQ(alone["tokens_per_step"]["padding"], 0.5) << "eight rows of 14";
    EXPECT_DOUBLE_EQ(packed["tokens_per_step"]["padding"], 0);
    // With separate documents, padding is computed. With packed documents, the plain form computes whole rows
    // and masks pairs of different documents. The kernel computes only the documents.
    EXPECT_DOUBLE_EQ(alone["flops_per_token"]["hfu"], (kDense * 8 * 14 + computed * 8 * 14 * 14) / tokens);
    EXPECT_DOUBLE_EQ(packed["flops_per_token"]["hfu"],
                     kDense + computed * (flash ? pairs : 4 * 14 * 14) / tokens);
  }
}

TEST_F(PackingTest, UtilizationDoesNotDependOnWhichTokensAreTrained) {
  // The counted step trains one token, or all of them. The fraction must not matter.
  for (const int64_t first : {0, 1}) {
    std::ofstream file(folder_ / "uneven.jsonl");
    for (int64_t i = 0; i < 16; ++i) {
      file << R"({"prompt_tokens": )" << ((i + first) % 2 == 0 ? 14 : 0) << R"(, "tokens": [)";
      for (int64_t j = 0; j < 15; ++j) file << (j > 0 ? "," : "") << (7 * i + 5 * j * j) % 64;
      file << "]}\n";
    }
    file.close();
    RunSpec run = spec({}, false);
    run.data.path = folder_ / "uneven.jsonl";
    run.train.micro_batch = 1;
    run.train.steps = 6;
    const Json result = Trained(run).train();
    EXPECT_DOUBLE_EQ(result["flops_per_token"]["mfu"], kDense + kPair * 14);
    EXPECT_DOUBLE_EQ(result["flops_per_token"]["hfu"], kDense + kPair * 14);
    EXPECT_EQ(result["tokens_per_step"]["processed"], 14);
    EXPECT_DOUBLE_EQ(
        result["trained_tokens_per_second"].get<double>() / result["tokens_per_second"].get<double>(),
        sum_of(result, "tokens") / (6 * 14));
    EXPECT_NEAR(result["tokens_per_second"].get<double>() * result["step_seconds"].get<double>(), 14, 1e-9);
  }
}

TEST_F(PackingTest, FlopsOfUnequalStepsAreSummed) {
  std::ofstream file(folder_ / "lengths.jsonl");
  for (const int length : {12, 6, 6, 4, 4, 4})  // rows of 144, 72 and 48 pairs
    file << Json{{"tokens", std::vector<int>(static_cast<size_t>(length) + 1, length)}} << "\n";
  file.close();
  RunSpec run = spec(kFlash, true);
  run.data.path = folder_ / "lengths.jsonl";
  run.train.micro_batch = 1;
  run.train.seq_len = 12;
  run.train.warmup = 3;
  run.train.steps = 3;  // each row is used once
  const Json fused = Trained(run).train();
  EXPECT_DOUBLE_EQ(fused["flops_per_token"]["hfu"], kDense + kPair * kFused * (144 + 72 + 48) / 36);
  EXPECT_DOUBLE_EQ(fused["flops_per_token"]["mfu"], kDense + kPair * (144 + 72 + 48) / 36);
  EXPECT_DOUBLE_EQ(fused["tokens_per_second"], 36 / sum_of(fused, "seconds"));
  run.plugins = {{"packing", Json::object()}};
  const Json plain = Trained(run).train();
  EXPECT_DOUBLE_EQ(plain["flops_per_token"]["hfu"], kDense + kPair * 12)
      << "whole rows, independent of their documents";
  EXPECT_DOUBLE_EQ(plain["flops_per_token"]["mfu"], kDense + kPair * (144 + 72 + 48) / 36);
  EXPECT_NEAR(plain["tokens_per_second"].get<double>() * plain["step_seconds"].get<double>(), 12, 1e-9);
}

TEST_F(PackingTest, FlopsOfMicroBatchesAreSummed) {
  RunSpec run = spec(kFlash, true);
  const Json whole = Trained(run).train();
  run.train.micro_batch = 1;
  run.train.accumulation = 4;
  const Json parts = Trained(run).train();
  for (const char* flops : {"mfu", "mfu_causal", "hfu"})
    EXPECT_DOUBLE_EQ(parts["flops_per_token"][flops], whole["flops_per_token"][flops].get<double>()) << flops;
  for (const char* count : {"tokens", "processed_tokens", "positions", "attention_pairs"})
    EXPECT_EQ(sum_of(parts, count), sum_of(whole, count)) << count;
}

TEST_F(PackingTest, SpeedIsTheMeanOverAllSteps) {
  RunSpec run = spec({}, false);
  run.train.micro_batch = 3;
  const Json result = Trained(run).train();
  std::set<int64_t> kinds;
  for (const Json& step : result["steps"]) kinds.insert(step["processed_tokens"].get<int64_t>());
  EXPECT_GT(kinds.size(), 1U) << "steps should differ";
  EXPECT_DOUBLE_EQ(result["tokens_per_second"].get<double>() * result["step_seconds"].get<double>(),
                   sum_of(result, "processed_tokens") / 4);
}

TEST_F(PackingTest, DataWithoutDocumentsAreRefused) {
  RunSpec other = spec({}, true);
  other.data = {};
  EXPECT_THAT(error_of([&] { Trained run(other); }),
              HasSubstr("data of kind 'random' fill every sequence already"));
}
}  // namespace
}  // namespace optrush::testing
