// The products of cublaslt_matmul on a GPU equal LibTorch's within rounding, before and after the algorithms
// are timed, and nothing else is written.
#include <ATen/Functions.h>

#include "on_gpu.h"
#include "replaced_kernels.h"

namespace optrush::testing {
namespace {
using namespace cublaslt_matmul;

constexpr int64_t kM = 320, kN = 288, kK = 512;

class CublasLtOnGpu : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    at::manual_seed(7);
    algorithms_.emplace(at::Device(at::kCUDA, 0), Limits{.candidates = 8, .workspace = int64_t{32} << 20});
  }
  Algorithms& algorithms() { return algorithms_.value(); }

  /// Rows or columns are contiguous, with a gap behind each.
  static Tensor stored(int64_t rows, int64_t columns, bool by_rows, at::ScalarType type) {
    const auto options = at::TensorOptions(at::kFloat).device(at::kCUDA);
    const Tensor whole =
        at::randn({by_rows ? rows : columns, (by_rows ? columns : rows) + 8}, options).to(type);
    return by_rows ? whole.narrow(1, 0, columns) : whole.narrow(1, 0, rows).t();
  }

 private:
  std::optional<Algorithms> algorithms_;
};

/// Relative to the largest number: bf16 keeps 8 bits, fp16 11, fp32 24.
void expect_close(const Tensor& got, const Tensor& exact, at::ScalarType type) {
  const double allowed = type == at::kBFloat16 ? 8e-3 : type == at::kHalf ? 1e-3 : 1e-5;
  const double apart = (got.to(at::kDouble) - exact).abs().max().item<double>();
  EXPECT_LE(apart, allowed * exact.abs().max().item<double>());
}

void expect_products_of_every_form(
    Algorithms& algorithms, at::ScalarType type,
    const std::function<Tensor(int64_t, int64_t, bool, at::ScalarType)>& make) {
  const ReplacedKernels replaced(algorithms);
  for (int form = 0; form < 4; ++form) {
    SCOPED_TRACE(form);
    const Tensor a = make(kM, kK, (form & 1) != 0, type), b = make(kK, kN, (form & 2) != 0, type);
    const Tensor sum = make(kM, kN, true, type), before = sum.clone();
    const Tensor exact = at::matmul(a.to(at::kDouble), b.to(at::kDouble)), wide_sum = sum.to(at::kDouble);
    const int64_t begun = algorithms.products();
    expect_close(at::mm(a, b), exact, type);
    Tensor out = make(kM, kN, true, type);
    expect_close(at::mm_out(out, a, b), exact, type);
    expect_close(at::addmm(sum, a, b, 0.5, 2), 0.5 * wide_sum + 2 * exact, type);
    expect_close(at::addmm_out(out, sum, a, b), wide_sum + exact, type);
    EXPECT_TRUE(at::equal(sum, before)) << "a summand stays as it is";
    expect_close(at::addmm_out(out, sum, a, b, 0, 1), exact, type);
    expect_close(out.copy_(sum).addmm_(a, b), wide_sum + exact, type);
    int64_t expected = 6;
    if (type != at::kFloat) {
      Tensor wide = at::empty({kM, kN}, a.options().dtype(at::kFloat));
      expect_close(at::mm_out(wide, a, b, at::kFloat), exact, at::kFloat);
      expect_close(at::addmm_out(wide, wide, a, b, at::kFloat), 2 * exact, at::kFloat);
      expected += 2;
    }
    EXPECT_EQ(algorithms.products() - begun, expected) << "each by cuBLASLt";
  }
}

TEST_F(CublasLtOnGpu, ProductsOfEveryFormAreRightBeforeAndAfterTiming) {
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    SCOPED_TRACE(c10::toString(type));
    expect_products_of_every_form(algorithms(), type, stored);
    const Choices choices = algorithms().choose();
    EXPECT_GT(choices.size(), 8U);
    algorithms().take(choices);
    EXPECT_TRUE(algorithms().choose().empty()) << "each shape has a choice now";
    expect_products_of_every_form(algorithms(), type, stored);
  }
}

TEST_F(CublasLtOnGpu, ChoicesAreAcceptedByAnotherRun) {
  const auto product = [] {
    return at::mm(stored(kM, kK, true, at::kBFloat16), stored(kK, kN, false, at::kBFloat16));
  };
  {
    const ReplacedKernels replaced(algorithms());
    product();
  }
  const Choices choices = algorithms().choose();
  Algorithms other(at::Device(at::kCUDA, 0), Limits{.candidates = 8, .workspace = int64_t{32} << 20});
  other.take(choices);
  const ReplacedKernels replaced(other);
  product();
  EXPECT_EQ(choices.size(), 1U);
  EXPECT_TRUE(other.choose().empty());
  EXPECT_EQ(other.timed(), 0);
}

TEST_F(CublasLtOnGpu, GradientsOfALinearAreRight) {
  const ReplacedKernels replaced(algorithms());
  const Tensor x = stored(kM, kK, true, at::kBFloat16).contiguous().requires_grad_(),
               weight = stored(kN, kK, true, at::kBFloat16).contiguous().requires_grad_(),
               upstream = stored(kM, kN, true, at::kBFloat16);
  at::linear(x, weight).backward(upstream);
  expect_close(x.grad(), at::matmul(upstream.to(at::kDouble), weight.detach().to(at::kDouble)),
               at::kBFloat16);
  expect_close(weight.grad(), at::matmul(upstream.to(at::kDouble).t(), x.detach().to(at::kDouble)),
               at::kBFloat16);
  EXPECT_EQ(algorithms().products(), 3);
}
}  // namespace
}  // namespace optrush::testing
