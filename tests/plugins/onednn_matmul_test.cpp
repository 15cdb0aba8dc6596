// onednn_matmul. Products of every form and their sums are correct. Products that it does not replace have
// LibTorch's bits. The replacement ends with the run.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "overrides/without_override_warnings.h"
#include "products.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using OneDnnKernels = onednn_matmul::Kernels;
using onednn_matmul::Products;

constexpr int64_t kRows = 160, kColumns = 144, kInner = 1024;

struct Operands {
  Tensor a, b;
};

/// (m, k) and (k, n), each plain or transposed in memory.
Operands operands(bool a_transposed, bool b_transposed, at::ScalarType type = at::kFloat) {
  const Tensor a = a_transposed ? at::randn({kInner, kRows}).t() : at::randn({kRows, kInner});
  const Tensor b = b_transposed ? at::randn({kColumns, kInner}).t() : at::randn({kInner, kColumns});
  return {a.to(type), b.to(type)};
}

std::vector<Operands> every_form() {
  return {operands(false, false), operands(false, true), operands(true, false), operands(true, true)};
}

/// The tolerance for a sum of kInner products of numbers near 1.
void expect_near_exact(const Tensor& product, const Tensor& exact) {
  EXPECT_LE((product.to(at::kDouble) - exact).abs().max().item<double>(), 1e-3);
}

class OneDnnMatmul : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!onednn_matmul::available())
      GTEST_SKIP() << "LibTorch does not call oneDNN's matmul on this processor";
  }
};

TEST_F(OneDnnMatmul, ProductsAndSumsOfEveryFormAreCorrect) {
  const Products products;
  for (const auto& [a, b] : every_form()) {
    ASSERT_TRUE(OneDnnKernels::multiplies(a, b));
    const Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
    expect_near_exact(at::mm(a, b), exact);
    Tensor out = at::empty({kRows, kColumns});
    expect_near_exact(at::mm_out(out, a, b), exact);
    const Tensor sum = at::randn({kRows, kColumns}), before = sum.clone();
    const Tensor exact_sum = 0.5 * sum.to(at::kDouble) - 2 * exact;
    expect_near_exact(at::addmm(sum, a, b, 0.5, -2), exact_sum);
    EXPECT_TRUE(sum.equal(before)) << "addmm does not write into its summand";
    expect_near_exact(at::addmm_out(out, sum, a, b, 0.5, -2), exact_sum);
    expect_near_exact(sum.clone().addmm_(a, b, 0.5, -2), exact_sum);
    expect_near_exact(at::addmm_out(out.copy_(sum), out, a, b, 0.5, -2), exact_sum);
  }
}

TEST_F(OneDnnMatmul, SilencesOnlyWarningsAboutOverrides) {
  class Recorder final : public c10::WarningHandler {
   public:
    void process(const c10::Warning& warning) override { messages.push_back(warning.msg()); }
    std::vector<std::string> messages;
  } recorder;
  const c10::WarningUtils::WarningHandlerGuard guard(&recorder);
  { const Products products; }  // overrides kernels of LibTorch
  EXPECT_TRUE(recorder.messages.empty()) << recorder.messages.front();
  WithoutOverrideWarnings handler(recorder);
  handler.process(c10::Warning(c10::UserWarning(), {}, std::string("another"), false));
  EXPECT_EQ(recorder.messages, std::vector<std::string>{"another"});
}

TEST_F(OneDnnMatmul, AddsToRowsOfALargerTensor) {
  const Products products;
  const auto [a, b] = operands(false, true);
  const Tensor whole = at::randn({3 * kRows, kColumns}), before = whole.clone();
  whole.narrow(0, kRows, kRows).addmm_(a, b);
  expect_near_exact(whole.narrow(0, kRows, kRows), before.narrow(0, kRows, kRows).to(at::kDouble) +
                                                       at::mm(a.to(at::kDouble), b.to(at::kDouble)));
  EXPECT_TRUE(whole.narrow(0, 0, kRows).equal(before.narrow(0, 0, kRows)));
  EXPECT_TRUE(whole.narrow(0, 2 * kRows, kRows).equal(before.narrow(0, 2 * kRows, kRows)));
}

TEST_F(OneDnnMatmul, GradientsOfALinearAreCorrect) {
  const Products products;
  const Tensor x = at::randn({2, kRows, kInner}).requires_grad_(),
               weight = at::randn({kColumns, kInner}).requires_grad_(),
               upstream = at::randn({2, kRows, kColumns});
  (at::linear(x, weight) * upstream).sum().backward();
  const Tensor wide_x = x.detach().to(at::kDouble).requires_grad_(),
               wide_weight = weight.detach().to(at::kDouble).requires_grad_();
  (at::linear(wide_x, wide_weight) * upstream).sum().backward();
  expect_near_exact(x.grad(), wide_x.grad());
  expect_near_exact(weight.grad(), wide_weight.grad());
}

TEST_F(OneDnnMatmul, UnsupportedProductsAreBitEqualToLibTorch) {
  const auto [a, b] = operands(false, true);
  const Operands wide = operands(false, true, at::kDouble), small = {a.narrow(0, 0, 4), b},
                 gaps = {at::randn({kRows, 2 * kInner}).as_strided({kRows, kInner}, {2 * kInner, 2}), b};
  for (const Operands& left : {wide, small, gaps}) {
    EXPECT_FALSE(OneDnnKernels::multiplies(left.a, left.b));
    const Tensor plain = at::mm(left.a, left.b);
    const Products products;
    EXPECT_TRUE(at::mm(left.a, left.b).equal(plain));
  }
  const Tensor bias = at::randn({kColumns}), plain = at::addmm(bias, a, b);
  const Products products;
  EXPECT_TRUE(at::addmm(bias, a, b).equal(plain)) << "a bias for each column";
}

TEST_F(OneDnnMatmul, EndsWithItsRun) {
  const auto [a, b] = operands(false, true);
  const Tensor plain = at::mm(a, b);
  Tensor replaced;
  {
    const Products products, of_another_run;
    replaced = at::mm(a, b);
  }
  EXPECT_TRUE(at::mm(a, b).equal(plain));
  if (!onednn_matmul::expected_faster()) GTEST_SKIP() << "both libraries may sum in the same order here";
  EXPECT_FALSE(replaced.equal(plain)) << "the products were not oneDNN's";
}

TEST_F(OneDnnMatmul, LossesFollowARunWithoutThePlugin) {
  const auto run = [](std::vector<PluginUse> stack) {
    RunSpec spec = nano_spec(std::move(stack));
    spec.model["dim"] = 128;
    spec.model["ffn_dim"] = 256;
    spec.train.micro_batch = 4;
    spec.train.seq_len = 64;
    return losses(Trained(spec).train());
  };
  const auto plain = run({}), by_onednn = run({{"onednn_matmul", {{"processors", "all"}}}});
  ASSERT_EQ(plain.size(), by_onednn.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(by_onednn[i], plain[i], 1e-4 * plain[i]);
}
}  // namespace
}  // namespace optrush::testing
