// cublaslt_matmul without a GPU: what it asks cuBLASLt for is the product of the tensors, and choices are
// kept. products_test.py runs its calls on the stand-in; cublaslt_matmul_gpu_test.cpp compares values on a
// GPU.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <thread>

#include "base/temporary_folder.h"
#include "kept_choices.h"
#include "product.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using namespace cublaslt_matmul;

constexpr int64_t kLeft = 20, kRight = 24, kTerms = 28;

/// A matrix whose rows or columns are contiguous, with a gap behind each if it is a part of a larger one.
Tensor stored_matrix(int64_t rows, int64_t columns, bool by_rows, int64_t gap) {
  return by_rows ? at::randn({rows, columns + gap}).narrow(1, 0, columns)
                 : at::randn({columns, rows + gap}).narrow(1, 0, rows).t();
}

/// The product as cuBLASLt defines it: matrices by columns, and D = A B + C.
void compute_as_cublaslt(const Product& product) {
  const Shape& shape = product.shape;
  const auto* a = static_cast<const float*>(product.a);
  const auto* b = static_cast<const float*>(product.b);
  const auto* c = static_cast<const float*>(product.c);
  auto* d = static_cast<float*>(product.d);
  for (int64_t column = 0; column < shape.n; ++column)
    for (int64_t row = 0; row < shape.m; ++row) {
      double sum = shape.adds == Adds::nothing ? 0 : c[column * shape.c_leading + row];
      for (int64_t i = 0; i < shape.k; ++i)
        sum += double{a[shape.a_transposed ? row * shape.a_leading + i : i * shape.a_leading + row]} *
               b[shape.b_transposed ? i * shape.b_leading + column : column * shape.b_leading + i];
      d[column * shape.d_leading + row] = static_cast<float>(sum);
    }
}

TEST(CublasLtMatmul, AsksForTheProductOfEveryForm) {
  for (int form = 0; form < 16; ++form) {
    SCOPED_TRACE(form);
    const int64_t gap = (form & 8) != 0 ? 3 : 0;
    const Tensor a = stored_matrix(kLeft, kTerms, (form & 1) != 0, gap),
                 b = stored_matrix(kTerms, kRight, (form & 2) != 0, 2 * gap),
                 out = stored_matrix(kLeft, kRight, (form & 4) != 0, 3 * gap),
                 sum = stored_matrix(kLeft, kRight, (form & 4) != 0, 4 * gap);
    const Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble)), before = out.to(at::kDouble);
    const auto expect = [&](const Tensor& summand, Adds adds, const Tensor& expected) {
      out.copy_(before);
      const auto product = product_of(a, b, summand, out);
      ASSERT_TRUE(product);
      EXPECT_EQ(product->shape.adds, adds);
      compute_as_cublaslt(*product);
      EXPECT_LT((out.to(at::kDouble) - expected).abs().max().item<double>(), 1e-4);
    };
    expect({}, Adds::nothing, exact);
    expect(out, Adds::result, before + exact);
    expect(sum, Adds::another, sum.to(at::kDouble) + exact);
  }
}

TEST(CublasLtMatmul, LeavesOtherProductsToLibTorch) {
  const Tensor a = at::randn({kLeft, kTerms}), b = at::randn({kTerms, kRight}),
               out = at::empty({kLeft, kRight});
  const auto refused = [&](const Tensor& left, const Tensor& right, const Tensor& sum, const Tensor& result) {
    return !product_of(left, right, sum, result);
  };
  EXPECT_FALSE(refused(a, b, {}, out));
  EXPECT_TRUE(refused(a, b, at::randn({kRight}), out)) << "a bias";
  EXPECT_TRUE(refused(a, b, at::randn({kRight, kLeft}).t(), out)) << "a summand in another order";
  EXPECT_TRUE(refused(a, b, at::randn({kLeft, kRight}).to(at::kHalf), out)) << "a summand of another type";
  const Tensor whole = at::randn({kLeft + 1, kRight});
  EXPECT_TRUE(refused(a, b, whole.narrow(0, 1, kLeft), whole.narrow(0, 0, kLeft))) << "a shifted summand";
  EXPECT_TRUE(refused(a, b.to(at::kBFloat16), {}, out)) << "two types";
  EXPECT_TRUE(refused(a.to(at::kDouble), b.to(at::kDouble), {}, out.to(at::kDouble))) << "fp64";
  EXPECT_TRUE(refused(a, b, {}, out.to(at::kBFloat16))) << "a result in fewer bits";
  EXPECT_TRUE(refused(a.narrow(0, 0, 4), b, {}, out.narrow(0, 0, 4))) << "a thin matrix";
  EXPECT_TRUE(
      refused(at::randn({kLeft, 2 * kTerms}).as_strided({kLeft, kTerms}, {2 * kTerms, 2}), b, {}, out))
      << "gaps between the numbers of a row";
  const Tensor square = at::randn({kLeft, kLeft});
  EXPECT_TRUE(refused(square, square, {}, square)) << "a result that is also a factor";
  EXPECT_FALSE(refused(a.to(at::kBFloat16), b.to(at::kBFloat16), {}, out)) << "bf16 with a result in fp32";
}

TEST(CublasLtMatmul, ShapesThatNeedOtherAlgorithmsHaveOtherNames) {
  const Tensor a = at::randn({kLeft, kTerms}), b = at::randn({kTerms, kRight}),
               out = at::empty({kLeft, kRight});
  const auto name = [](const Tensor& left, const Tensor& right, const Tensor& sum, const Tensor& result) {
    return product_of(left, right, sum, result).value().shape.text();
  };
  const Tensor moved = at::empty({kLeft * kRight + 1}).narrow(0, 1, kLeft * kRight).view({kLeft, kRight});
  const std::set<std::string> names = {
      name(a, b, {}, out),
      name(a, b, out, out),
      name(a, b, at::randn({kLeft, kRight}), out),
      name(a, b, {}, moved),
      name(at::randn({kTerms, kLeft}).t(), b, {}, out),
      name(at::randn({kLeft, kTerms + 4}).narrow(1, 0, kTerms), b, {}, out),
      name(a.to(at::kBFloat16), b.to(at::kBFloat16), {}, out),
      name(a.to(at::kBFloat16), b.to(at::kBFloat16), {}, out.to(at::kBFloat16))};
  EXPECT_EQ(names.size(), 8U);
}

class CublasLtChoices : public ::testing::Test {
 protected:
  static KeptFor card(std::string name = "NVIDIA H200") {
    return {.card = std::move(name), .architecture = "sm_90", .version = 130200, .limits = {}};
  }
  KeptChoices kept(const KeptFor& of = card()) const { return {folder_ / "cublaslt", of}; }
  static Algorithm algorithm(uint64_t number) { return {.data = {number, ~uint64_t{0}, 0, number << 60}}; }

  TemporaryFolder folder_;
};

TEST_F(CublasLtChoices, AreReadAsTheyWereWritten) {
  EXPECT_TRUE(kept().read().empty());
  const Choices choices = {{"nn 16 16 16", algorithm(1)}, {"tn 32 16 16", algorithm(2)}};
  kept().add(choices);
  std::string damage;
  EXPECT_EQ(kept().read(&damage), choices);
  EXPECT_EQ(damage, "");
}

TEST_F(CublasLtChoices, TheFirstOfAShapeStays) {
  kept().add({{"a", algorithm(1)}});
  kept().add({{"a", algorithm(2)}, {"b", algorithm(3)}});
  EXPECT_EQ(kept().read(), (Choices{{"a", algorithm(1)}, {"b", algorithm(3)}}));
}

TEST_F(CublasLtChoices, OfSeveralProcessesAreAllKept) {
  std::vector<std::jthread> ranks;
  for (uint64_t rank = 0; rank < 8; ++rank)
    ranks.emplace_back([this, rank] {
      for (uint64_t shape = 0; shape < 10; ++shape)
        kept().add({{"shape " + std::to_string(10 * rank + shape), algorithm(shape)}});
    });
  ranks.clear();
  EXPECT_EQ(kept().read().size(), 80U);
}

TEST_F(CublasLtChoices, OfAnotherCardLibraryOrLimitAreApart) {
  kept().add({{"a", algorithm(1)}});
  KeptFor library = card(), limit = card();
  library.version = 130300;
  limit.limits.candidates = 4;
  for (const KeptFor& other : {card("NVIDIA H100"), library, limit}) {
    EXPECT_TRUE(kept(other).read().empty());
    EXPECT_NE(kept(other).file(), kept().file());
  }
}

TEST_F(CublasLtChoices, DamagedFilesAreMadeAnew) {
  kept().add({{"a", algorithm(1)}});
  std::ifstream in(kept().file());
  const std::string whole(std::istreambuf_iterator<char>(in), {});
  Json other = Json::parse(whole), shorter = other, wrong = other;
  other["for"]["format"] = 2;
  shorter["algorithms"]["a"] = "00";
  wrong["algorithms"]["a"] = std::string(128, 'x');
  for (const std::string& text : {whole.substr(0, whole.size() / 2), std::string("[]"), other.dump(),
                                  shorter.dump(), wrong.dump(), std::string()}) {
    SCOPED_TRACE(text);
    std::ofstream(kept().file()) << text;
    std::string damage;
    EXPECT_TRUE(kept().read(&damage).empty());
    EXPECT_NE(damage, "");
    kept().add({{"b", algorithm(2)}});
    EXPECT_EQ(kept().read(), (Choices{{"b", algorithm(2)}}));
  }
}

TEST_F(CublasLtChoices, AFolderThatCannotBeWrittenIsNamed) {
  std::ofstream(folder_ / "cublaslt") << "a file";
  try {
    kept().add({{"a", algorithm(1)}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::file_access);
    EXPECT_NE(e.message().find((folder_ / "cublaslt").string()), std::string::npos) << e.what();
  }
}

TEST(CublasLtMatmul, RefusesFp64AndSkipsACpu) {
  RunSpec spec = nano_spec({{"cublaslt_matmul", Json::object()}});
  EXPECT_THROW(Trained(spec).train(), Skip);
  spec.train.dtype = "fp64";
  try {
    Trained(spec).train();
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("train.dtype is fp64"), std::string::npos) << e.what();
  }
}
}  // namespace
}  // namespace optrush::testing
