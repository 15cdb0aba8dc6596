// The model kind "collective": the bytes that it sends, and its run results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/model_kinds.h"
#include "spec/spec_json.h"
#include "support/error_of.h"
#include "support/training.h"
#include "trained_ranks.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

RunSpec collective(const std::string& op, int64_t ranks, int64_t bytes) {
  RunSpec spec = nano_spec();
  spec.model_kind = "collective";
  spec.model = validate_model("collective", {{"op", op}, {"bytes", bytes}, {"repeat", 3}}, "test");
  spec.train.world_size = ranks;
  spec.train.micro_batch = 1;
  spec.train.seq_len = 1;
  return spec;
}

class CollectiveAlone : public ::testing::TestWithParam<std::string> {};

// The run checks the values and fails if one is wrong.
TEST_P(CollectiveAlone, SentBytesMatchTheory) {
  for (const int64_t ranks : {2, 3}) {
    const auto trained = train_on(pool(), {.spec = collective(GetParam(), ranks, 1200)});
    EXPECT_LT(trained.losses.back(), trained.losses.front());
    const double n = static_cast<double>(ranks), share = (n - 1) / n;
    const double factor = GetParam() == "all_reduce" ? 2 * share : GetParam() == "send_recv" ? 1 : share;
    double sent = 0;
    for (const Json& each : trained.result.at("collectives")) {
      if (each.at("group") != "ranks" || each.at("sent_bytes") == 0) continue;
      sent += each.at("sent_bytes").get<double>();
      EXPECT_EQ(each.at("calls"), 3);
      EXPECT_EQ(each.at("bytes"), 3 * 1200);
      EXPECT_EQ(each.at("theory_bytes"), each.at("sent_bytes"));
    }
    EXPECT_NEAR(sent, 3 * 1200 * factor, 1e-6);
  }
}
INSTANTIATE_TEST_SUITE_P(Each, CollectiveAlone,
                         ::testing::Values("all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                           "send_recv"));

TEST(CollectiveAlone, RequiresAtLeastTwoRanks) {
  const RunSpec spec = collective("all_reduce", 1, 1024);
  EXPECT_THAT(error_of([&] { RunSetup::open(spec, at::kCPU); }), HasSubstr("at least two ranks"));
}

TEST(CollectiveAlone, AForecastSendsNothing) {
  std::string why_not;
  const auto planned = forecast(collective("all_gather", 4, 1 << 20), at::kCPU, &why_not);
  ASSERT_TRUE(planned) << why_not;
  EXPECT_NEAR(planned->memory.peak, 1.25 * (1 << 20), 4096);
}
}  // namespace
}  // namespace optrush::testing
