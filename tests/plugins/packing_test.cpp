// Packing: the rows, and that a document trains packed as it does alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <random>

#include "pack.h"
#include "precision.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace optrush::testing {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Pack, TheLongestFirstWhereTheyLeaveLeastRoom) {
  const std::vector<int64_t> lengths = {2, 7, 3, 5, 1};
  // 7 | 5 | 3 into the 7 | 2 into the 5 | 1 into the 5
  EXPECT_THAT(packing::pack(lengths, 10), ElementsAre(ElementsAre(1, 2), ElementsAre(0, 3, 4)));
  EXPECT_TRUE(packing::pack({}, 10).empty());
}

TEST(Pack, EveryDocumentOnceAndNoTwoRowsFitOne) {
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
  /// Eight documents of 9 and 7 tokens, 8 and 6 positions: a step of all of them, alone or two in a sequence.
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

TEST_F(PackingTest, ADocumentTrainsAsItDoesAlone) {
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

TEST_F(PackingTest, TheSpeedIsThatOfTheMeanOfAllSteps) {
  RunSpec run = spec({}, false);
  run.train.micro_batch = 3;
  const Json result = Trained(run).train();
  double tokens = 0, steps = 0;
  std::set<int64_t> kinds;
  for (const Json& step : result["steps"])
    if (step["timed"].get<bool>()) {
      tokens += step["tokens"].get<double>();
      kinds.insert(step["tokens"].get<int64_t>());
      ++steps;
    }
  EXPECT_GT(kinds.size(), 1U) << "steps should differ";
  EXPECT_DOUBLE_EQ(result["tokens_per_second"].get<double>() * result["step_seconds"].get<double>(),
                   tokens / steps);
}

TEST_F(PackingTest, OtherDataIsRefused) {
  RunSpec other = spec({}, true);
  other.data = {};
  EXPECT_THAT(error_of([&] { Trained run(other); }),
              HasSubstr("the data of kind 'random' fills every sequence already"));
  EXPECT_THAT(error_of([&] {
                Trained run(spec({{"flash_attention", {{"kernel", "cudnn"}}}}, true));
              }),
              HasSubstr("segments"));
}
}  // namespace
}  // namespace optrush::testing
