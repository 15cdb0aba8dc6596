// The GPU kernels of Gated DeltaNet against the plain forms on a CPU.
#include "on_gpu.h"
#include "plugins/delta_net_cases.h"
#include "support/error_of.h"

namespace optrush::testing {
namespace {
class FusedDeltaNetOnGpu : public OnGpu {};

const DeltaNetSizes kWide = {
    .batch = 2, .key_heads = 2, .value_heads = 4, .positions = 1000, .key_width = 128, .value_width = 128};

TEST_F(FusedDeltaNetOnGpu, EqualsThePlainFormsInEachType) {
  std::vector<DeltaNetSizes> all(std::begin(kRuleSizes), std::end(kRuleSizes));
  all.push_back({.batch = 1, .positions = 200, .key_width = 64, .value_width = 96});
  all.push_back(kWide);
  for (const DeltaNetOperator& c : kDeltaNetOperators)
    for (const DeltaNetSizes& sizes : all)
      for (const auto& [type, tolerance] : kDeltaNetTolerances)
        for (const bool packed : {false, true}) {
          SCOPED_TRACE(std::string(c.name) + ", " + c10::toString(type) + ", " +
                       std::to_string(sizes.positions) + " positions of " + std::to_string(sizes.key_width) +
                       (packed ? ", packed" : ""));
          expect_like_plain(c, sizes, type, tolerance * 4, packed, at::kCUDA);
        }
}

TEST_F(FusedDeltaNetOnGpu, EachRunGivesTheSameBits) {
  for (const DeltaNetOperator& c : kDeltaNetOperators) {
    Tensors in = c.inputs(kWide, at::kBFloat16);
    for (Tensor& x : in) x = x.cuda();
    const Tensors first = results(c.fused, in, {}, at::kBFloat16);
    for (int run = 0; run < 3; ++run) {
      const Tensors again = results(c.fused, in, {}, at::kBFloat16);
      for (size_t i = 0; i < first.size(); ++i)
        EXPECT_TRUE(at::equal(first[i], again[i])) << c.name << ' ' << i;
    }
  }
}

TEST_F(FusedDeltaNetOnGpu, KeysThatAreTooWideAreRefused) {
  DeltaNetSizes sizes{.positions = 2, .key_width = 300};
  Tensors in = rule_inputs(sizes, at::kFloat);
  for (Tensor& x : in) x = x.cuda();
  const auto message = error_of([&] { fused_rule(in, {}); });
  EXPECT_NE(message.find("keys of up to 256 numbers in Float on a GPU, not of 300"), std::string::npos)
      << message;
}
}  // namespace
}  // namespace optrush::testing
