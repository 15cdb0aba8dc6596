// Estimates of measured runs: the cost formulas with the speed that one device reached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh_plan/measured_hardware.h"
#include "mesh_plan/tables.h"
#include "optrush/error.h"
#include "report_fixture.h"

namespace optrush::mesh_plan {
namespace {
using ::testing::HasSubstr;

TEST(Estimates, AreGivenBesideTheMeasuredStep) {
  const Analysis a = analysis_of(test::scaling());
  Hardware hardware = measured_hardware(a, Precision::fp32);
  EXPECT_THROW(estimates_of(a, hardware), UsageError) << "the bandwidth is unknown";
  hardware.node.bandwidth = 10e9;
  const auto estimates = estimates_of(a, hardware);
  ASSERT_FALSE(estimates.empty());
  for (const Estimate& estimate : estimates) {
    EXPECT_EQ(estimate.from, "FlashAttention") << estimate.rung;
    EXPECT_GT(estimate.measured, 0);
    EXPECT_GT(estimate.sent.value(), 0);
    EXPECT_GT(estimate.estimated_sent(), 0);
    EXPECT_NEAR(estimate.error(), estimate.estimated() / estimate.measured - 1, 1e-12);
  }
  EXPECT_THAT(estimates_text(estimates, hardware, TableForm::text), HasSubstr("measured"));
}

// The estimate of the row that the speed was measured on equals its measurement.
TEST(Estimates, OneDeviceEqualsItsMeasurement) {
  const Analysis a = analysis_of(test::scaling());
  const Row& row = a.rows.at(1);
  const MeasuredConfig measured = measured_config(a, row);
  const ConfigCost cost =
      cost_of(measured.mix, measured.problem, reached_by(a, row, measured_hardware(a, Precision::fp32)));
  double phases = 0;
  for (const auto& [name, seconds] : row.phases)
    if (name == "forward" || name == "backward") phases += seconds.value_or(0);
  EXPECT_NEAR(cost.compute, phases, 1e-9 * phases);
}

// The formulas cover neither packed documents nor frozen matrices, so such rows give no speed for other rows.
TEST(Estimates, NeedWholeSequencesAndTrainableParameters) {
  Analysis a = analysis_of(test::scaling());
  const Row& row = a.rows.at(1);
  EXPECT_TRUE(trained_decoder(a, row));
  a.plans.at(1)->parameters = {.count = 10, .trainable = 4};
  EXPECT_FALSE(trained_decoder(a, row));
  a.plans.at(1)->parameters->trainable = 10;
  EXPECT_TRUE(trained_decoder(a, row));
  a.variants.at(1).spec.data.kind = "documents";
  EXPECT_FALSE(trained_decoder(a, row));
}
}  // namespace
}  // namespace optrush::mesh_plan
