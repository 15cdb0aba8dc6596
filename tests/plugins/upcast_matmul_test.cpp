// upcast_matmul. UpcastProducts of every form and their sums are those in double, rounded to the type.
// UpcastProducts that it does not replace have LibTorch's bits. The replacement ends with the run. A forecast
// has its memory.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "support/training.h"
#include "upcast_products.h"

namespace optrush::testing {
namespace {
using upcast_matmul::Kernels;
using upcast_matmul::UpcastProducts;

UpcastProducts replaced_products() {
  return UpcastProducts(at::empty({at::get_num_threads(), upcast_matmul::workspace_bytes()}, at::kByte));
}

struct Matrices {
  Tensor a, b;
};

/// (m, k) and (k, n), each plain or transposed in memory. The sizes end inside of tiles and of vectors.
Matrices matrices(bool a_transposed, bool b_transposed, at::ScalarType type, int64_t m = 530, int64_t n = 157,
                  int64_t k = 1037) {
  const Tensor a = a_transposed ? at::randn({k, m}).to(type).t() : at::randn({m, k}).to(type);
  const Tensor b = b_transposed ? at::randn({n, k}).to(type).t() : at::randn({k, n}).to(type);
  return {a, b};
}

/// Within half a unit in the last place of the type, and the error of a sum in fp32.
void expect_rounded(const Tensor& product, const Tensor& exact, at::ScalarType type) {
  ASSERT_EQ(product.scalar_type(), type);
  const double half_unit = type == at::kHalf ? 1.0 / 2048 : 1.0 / 256;
  const Tensor allowed = exact.abs() * half_unit + 1e-3;
  EXPECT_TRUE(((product.to(at::kDouble) - exact).abs() <= allowed).all().item<bool>())
      << (product.to(at::kDouble) - exact).abs().max().item<double>();
}

class UpcastForms : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(UpcastForms, ProductsAndSumsOfEveryFormAreRoundedOnce) {
  const UpcastProducts products = replaced_products();
  for (const auto& [a_transposed, b_transposed] :
       std::vector<std::pair<bool, bool>>{{false, false}, {false, true}, {true, false}, {true, true}}) {
    const auto [a, b] = matrices(a_transposed, b_transposed, GetParam());
    ASSERT_TRUE(Kernels::multiplies(a, b));
    const Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
    expect_rounded(at::mm(a, b), exact, GetParam());
    Tensor out = at::empty(exact.sizes(), a.options());
    expect_rounded(at::mm_out(out, a, b), exact, GetParam());
    const Tensor sum = at::randn(exact.sizes()).to(GetParam()), before = sum.clone();
    const Tensor exact_sum = 0.5 * sum.to(at::kDouble) - 2 * exact;
    expect_rounded(at::addmm(sum, a, b, 0.5, -2), exact_sum, GetParam());
    EXPECT_TRUE(sum.equal(before)) << "addmm does not write into its summand";
    expect_rounded(at::addmm_out(out, sum, a, b, 0.5, -2), exact_sum, GetParam());
    expect_rounded(sum.clone().addmm_(a, b, 0.5, -2), exact_sum, GetParam());
  }
}

TEST_P(UpcastForms, BlocksOfLargerMatricesAreRead) {
  const UpcastProducts products = replaced_products();
  const auto [whole_a, whole_b] = matrices(false, true, GetParam(), 300, 400, 900);
  const Tensor a = whole_a.narrow(0, 50, 200).narrow(1, 100, 600),
               b = whole_b.narrow(0, 100, 600).narrow(1, 30, 310);
  ASSERT_TRUE(Kernels::multiplies(a, b));
  const Tensor whole = at::zeros({500, 310}, a.options());
  Tensor part = whole.narrow(0, 200, 200);
  at::mm_out(part, a, b);
  expect_rounded(part, at::mm(a.to(at::kDouble), b.to(at::kDouble)), GetParam());
  EXPECT_EQ(whole.narrow(0, 0, 200).count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(whole.narrow(0, 400, 100).count_nonzero().item<int64_t>(), 0);
}
INSTANTIATE_TEST_SUITE_P(Types, UpcastForms, ::testing::Values(at::kBFloat16, at::kHalf));

TEST(UpcastMatmul, ThreadsChangeOnlyRoundings) {
  const UpcastProducts products(at::empty({16, upcast_matmul::workspace_bytes()}, at::kByte));
  const auto [a, b] = matrices(false, true, at::kBFloat16, 700, 1030, 1200);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor by_one = at::mm(a, b);
  at::set_num_threads(7);
  const Tensor by_seven = at::mm(a, b);
  at::set_num_threads(before);
  EXPECT_LE((by_one.to(at::kDouble) - by_seven.to(at::kDouble)).abs().max().item<double>(), 1.0)
      << "at most one unit in the last place of numbers below 256";
}

TEST(UpcastMatmul, OtherProductsAreBitEqualToLibTorch) {
  const Matrices fp32 = matrices(false, true, at::kFloat), small = matrices(false, true, at::kBFloat16, 20);
  const Tensor a = matrices(false, true, at::kBFloat16).a, bias = at::randn({157}).to(at::kBFloat16);
  for (const Matrices& each : {fp32, small}) {
    EXPECT_FALSE(Kernels::multiplies(each.a, each.b));
    const Tensor plain = at::mm(each.a, each.b);
    const UpcastProducts products = replaced_products();
    EXPECT_TRUE(at::mm(each.a, each.b).equal(plain));
  }
  const Tensor b = matrices(false, true, at::kBFloat16).b, plain = at::addmm(bias, a, b);
  const UpcastProducts products = replaced_products();
  EXPECT_TRUE(at::addmm(bias, a, b).equal(plain)) << "a bias for each column";
}

TEST(UpcastMatmul, EndsWithTheLastRunThatUsesIt) {
  const auto [a, b] = matrices(false, true, at::kBFloat16);
  const Tensor plain = at::mm(a, b);
  auto first = std::make_optional<UpcastProducts>(
      at::empty({at::get_num_threads(), upcast_matmul::workspace_bytes()}, at::kByte));
  {
    const UpcastProducts second = replaced_products();
    at::mm(a, b);
  }
  const Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  expect_rounded(at::mm(a, b), exact, at::kBFloat16);
  first.reset();
  EXPECT_TRUE(at::mm(a, b).equal(plain));
}

RunSpec upcast_spec(std::vector<PluginUse> stack) {
  RunSpec spec = nano_spec(std::move(stack));
  spec.model["dim"] = 128;
  spec.model["ffn_dim"] = 256;
  spec.train.micro_batch = 4;
  spec.train.seq_len = 64;
  return spec;
}

TEST(UpcastMatmul, LossesFollowARunWithoutThePlugin) {
  const auto run = [](std::vector<PluginUse> stack) {
    return losses(Trained(upcast_spec(std::move(stack))).train());
  };
  const PluginUse autocast{"mixed_precision", {{"dtype", "bf16"}}};
  const auto plain = run({autocast}), upcast = run({autocast, {"upcast_matmul", {{"processors", "all"}}}});
  ASSERT_EQ(plain.size(), upcast.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(upcast[i], plain[i], 3e-3 * plain[i]);
}
}  // namespace
}  // namespace optrush::testing
