// Memory that is predicted without using any is the memory that is then used.
#include "worker/predict.h"

#include <gtest/gtest.h>

#include "measure/memory.h"
#include "support/swiglu_stack.h"

namespace optrush::testing {
namespace {
int64_t measured(const RunSpec& spec) {
  install_cpu_memory_tracking();
  const int64_t before = cpu_allocated();
  return Trained(spec).train()["memory"]["peak_allocated"].get<int64_t>() - before;
}

TEST(Predict, ThePeakOfAStepToTheByte) {
  const PluginUse lora = {"lora", {{"rank", 4}}};
  RunSpec accumulated = nano_spec();
  accumulated.train.accumulation = 3;
  RunSpec wide = stack_spec({{"swiglu_recompute", {{"level", 1}}}});
  wide.train.seq_len = 200;
  for (const RunSpec& spec : {nano_spec(), nano_spec({lora}), accumulated, stack_spec(),
                              stack_spec({{"swiglu_recompute", {{"level", 0}}}}), wide}) {
    SCOPED_TRACE(to_json(spec).dump());
    const auto predicted = predicted_peak(spec);
    ASSERT_TRUE(predicted.has_value());
    EXPECT_EQ(*predicted, measured(spec));
  }
}

/// Kernels of a CPU have small buffers of their own: for a sum, say.
TEST(Predict, SmallBuffersInsideOfAKernelAreMissing) {
  const RunSpec spec = nano_spec({{"fused_linear_cross_entropy", Json::object()}});
  const int64_t peak = measured(spec);
  EXPECT_NEAR(static_cast<double>(predicted_peak(spec).value()), static_cast<double>(peak), 1024);
}

TEST(Predict, NeedsNeitherMemoryNorData) {
  RunSpec spec = stack_spec();
  spec.model =
      validate_model("swiglu_stack", {{"dim", 65536}, {"ffn_dim", 262144}, {"n_layers", 100}}, "test");
  const int64_t parameters = int64_t{3} * 65536 * 262144 * 100;
  const auto predicted = predicted_peak(spec);
  ASSERT_TRUE(predicted.has_value());
  EXPECT_GT(*predicted, 4 * 4 * parameters);
  RunSpec text = nano_spec();
  text.data = {.kind = "text", .path = "/nowhere", .extensions = {}};
  EXPECT_TRUE(predicted_peak(text).has_value());
}

TEST(Predict, SaysNothingOfWhatItCannotRun) {
  EXPECT_FALSE(predicted_peak(nano_spec({{"flash_attention", Json::object()}})).has_value());
  EXPECT_TRUE(memory_forecast(nano_spec({{"flash_attention", Json::object()}})).is_null());
  const Json forecast = memory_forecast(nano_spec());
  EXPECT_EQ(forecast["device"], "cpu");
  EXPECT_GT(forecast["available_bytes"].get<int64_t>(), forecast["peak_bytes"].get<int64_t>());
}
}  // namespace
}  // namespace optrush::testing
