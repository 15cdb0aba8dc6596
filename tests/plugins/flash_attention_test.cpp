// flash_attention: which kernel is tried first, and that no tensor around it has to be copied.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel_order.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using ::testing::ElementsAre;

TEST(FlashAttention, TriesCudnnFirstOnHopperAndFlashWhereItWasFoundFaster) {
  EXPECT_THAT(kernel_order("sm_90"), ElementsAre("cudnn", "flash", "efficient"));
  for (const char* architecture : {"sm_80", "sm_86", "sm_89", "sm_120"})
    EXPECT_EQ(kernel_order(architecture).front(), "flash") << architecture;
  for (const char* architecture : {"sm_75", "sm_100", "sm_103"})
    EXPECT_TRUE(kernel_order(architecture).empty()) << architecture;
}

/// (B, H, S, K) in memory as (B, S, H, K), axes of one element aside: what linears before and after take as
/// it is.
bool is_heads_of_rows(const Tensor& x) { return x.transpose(1, 2).is_contiguous(); }

TEST(FlashAttention, NeitherInputsNorGradientsHaveToBeCopied) {
  for (const int64_t batch : {1, 4})
    for (const bool fused_position : {false, true}) {
      SCOPED_TRACE("batch " + std::to_string(batch) + (fused_position ? ", fused position" : ""));
      RunSpec spec = nano_spec({{"flash_attention", Json::object()}});
      if (fused_position) spec.plugins.push_back({"fused_kernels", {{"kernels", {"position"}}}});
      spec.train.micro_batch = batch;
      int64_t outputs = 0, gradients = 0;
      Trained trained(spec, [&](Recipe& recipe) {
        recipe.ops.attention.wrap(Phase::adapter, [&](auto inner, const Site&) -> decltype(inner) {
          return [&, inner](const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
            const AttentionOut result = inner(q, k, v, args);
            for (const Tensor& each : {q, k, v, result.out}) {
              EXPECT_TRUE(is_heads_of_rows(each)) << each.strides();
              ++outputs;
              each.register_hook([&](const Tensor& gradient) {
                EXPECT_TRUE(is_heads_of_rows(gradient)) << gradient.strides();
                ++gradients;
              });
            }
            return result;
          };
        });
      });
      trained.train();
      EXPECT_EQ(outputs, 2 * 3 * 4);
      EXPECT_EQ(gradients, outputs);
    }
}

TEST(FlashAttention, SaysWhichKernelRanAndWhy) {
  const auto notes = [](Json options) {
    Trained trained(nano_spec({{"flash_attention", std::move(options)}}));
    trained.train();
    return Json(trained.session().notes()).dump();
  };
  EXPECT_NE(notes(Json::object()).find("attention runs the kernel 'flash' (auto)"), std::string::npos);
  EXPECT_NE(notes({{"kernel", "flash"}}).find("attention runs the kernel 'flash' (as asked)"),
            std::string::npos);
  EXPECT_THROW(notes({{"kernel", "cudnn"}}), Skip);
}
}  // namespace
}  // namespace optrush::testing
