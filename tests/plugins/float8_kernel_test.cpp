// The GPU kernels of float8, run by threads of the host, give the bits of the operators that they replace.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "support/cuda_on_threads.h"
#include "support/error_of.h"

namespace {
namespace float8_cu {
#include "float8/gpu/quantize.cu"
}
namespace groups_cu {
#include "float8/gpu/quantize_groups.cu"
}
namespace glu_cu {
#include "fused_kernels/gpu/glu.cu"
}
namespace norm_cu {
#include "fused_kernels/gpu/norm.cu"
}
namespace rounded_glu_cu {
#include "fused_kernels/gpu/rounded_glu.cu"
}
namespace rounded_norm_cu {
#include "fused_kernels/gpu/rounded_norm.cu"
}
namespace update_cu {
#include "bf16_weights/gpu/update.cu"
}
}  // namespace

#include "float8/scaled.h"
#include "kernel_parts/largest.h"
#include "kernel_parts/rounding.h"

namespace {
using at::Tensor;

template <class T>
const T* numbers(const Tensor& tensor) {
  return reinterpret_cast<const T*>(tensor.const_data_ptr());
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

unsigned int tiles_of(int64_t rows, int64_t columns, int64_t tile_rows) {
  return static_cast<unsigned int>((rows + tile_rows - 1) / tile_rows * ((columns + 127) / 128));
}

template <class T, int N, int mantissa>
void expect_operators_bits(const Tensor& x, at::ScalarType type) {
  const int64_t rows = x.size(0), columns = x.size(1);
  const auto expected = optrush::float8::quantize_both_ways(x, type, optrush::float8::Scaling::tensorwise);
  constexpr unsigned int kParts = 3;
  const Tensor parts = at::empty({kParts}), scale = at::empty({1, 1});
  const Tensor values = at::empty_like(expected.rows.values),
               turned = at::empty_like(expected.columns.values);
  const Tensor alone = at::empty_like(values), again = at::empty_like(turned);
  const auto bytes = [](const Tensor& tensor) { return static_cast<unsigned char*>(tensor.data_ptr()); };
  const auto tiles = tiles_of(rows, columns, float8_cu::kTileRows);
  const Place threads{float8_cu::kThreads, 1, 1};
  optrush::testing::launch(kParts, threads, [&] {
    float8_cu::largest_parts<T, N>(numbers<T>(x), parts.mutable_data_ptr<float>(), x.numel());
  });
  optrush::testing::launch(tiles, threads, [&] {
    float8_cu::quantize<T, N, mantissa, true>(numbers<T>(x), parts.const_data_ptr<float>(), kParts, 0,
                                              nullptr, bytes(values), bytes(turned),
                                              scale.mutable_data_ptr<float>(), rows, columns, columns);
  });
  EXPECT_TRUE(same_bytes(values, expected.rows.values));
  EXPECT_TRUE(same_bytes(turned, expected.columns.values));
  EXPECT_TRUE(at::equal(scale, expected.rows.scale));
  optrush::testing::launch(tiles, threads, [&] {
    float8_cu::quantize<T, N, mantissa, false>(numbers<T>(x), parts.const_data_ptr<float>(), kParts, 0,
                                               nullptr, bytes(alone), nullptr,
                                               scale.mutable_data_ptr<float>(), rows, columns, columns);
  });
  EXPECT_TRUE(same_bytes(alone, expected.rows.values));
  optrush::testing::launch(tiles, threads,
                           [&] { float8_cu::transpose(bytes(values), bytes(again), rows, columns); });
  EXPECT_TRUE(same_bytes(again, expected.columns.values));
}

template <class T, int N>
void expect_both_formats(const Tensor& x) {
  SCOPED_TRACE(std::string(c10::toString(x.scalar_type())) + " " + std::to_string(N) + " at a time");
  expect_operators_bits<T, N, 3>(x, at::kFloat8_e4m3fn);
  expect_operators_bits<T, N, 2>(x, at::kFloat8_e5m2);
}

void expect_each_type(const Tensor& x) {
  expect_both_formats<float, 4>(x);
  expect_both_formats<float, 1>(x);
  expect_both_formats<__nv_bfloat16, 8>(x.to(at::kBFloat16));
  expect_both_formats<__half, 8>(x.to(at::kHalf));
}

TEST(Float8Kernel, RowsAndColumnsRoundLikeTheOperators) {
  at::manual_seed(1);
  for (const auto& [rows, columns] : {std::pair(16, 16), {64, 128}, {80, 144}, {144, 272}})
    expect_each_type(at::randn({rows, columns}));
}

/// Concatenated matrices share a scale. Each writes its columns of one matrix and its rows of the transpose.
TEST(Float8Kernel, ConcatenatedMatricesEqualOneMatrix) {
  at::manual_seed(2);
  constexpr int64_t kRows = 80;
  const at::Tensor left = at::randn({kRows, 144}), right = 3 * at::randn({kRows, 48});
  const auto expected = optrush::float8::quantize_both_ways(optrush::Tensors{left, right}, at::kFloat8_e5m2,
                                                            optrush::float8::Scaling::tensorwise);
  const Tensor parts = at::empty({2}), scale = at::empty({1, 1});
  const Tensor values = at::empty_like(expected.rows.values),
               turned = at::empty_like(expected.columns.values);
  const int64_t all = values.size(1);
  int64_t number = 0, column = 0;
  for (const Tensor& x : {left, right})
    optrush::testing::launch(1, {float8_cu::kThreads, 1, 1}, [&, at = number++] {
      float8_cu::largest_parts<float, 4>(numbers<float>(x), parts.mutable_data_ptr<float>() + at, x.numel());
    });
  for (const Tensor& x : {left, right}) {
    const auto tiles = tiles_of(kRows, x.size(1), float8_cu::kTileRows);
    optrush::testing::launch(tiles, {float8_cu::kThreads, 1, 1}, [&] {
      float8_cu::quantize<float, 4, 2, true>(numbers<float>(x), parts.const_data_ptr<float>(), 2, 0, nullptr,
                                             static_cast<unsigned char*>(values.data_ptr()) + column,
                                             static_cast<unsigned char*>(turned.data_ptr()) + column * kRows,
                                             scale.mutable_data_ptr<float>(), kRows, x.size(1), all);
    });
    column += x.size(1);
  }
  EXPECT_TRUE(same_bytes(values, expected.rows.values));
  EXPECT_TRUE(same_bytes(turned, expected.columns.values));
  EXPECT_TRUE(at::equal(scale, expected.rows.scale));
}

/// The sign of a NaN does not count.
bool same_numbers(const Tensor& a, const Tensor& b) {
  const Tensor wide_a = a.to(at::kFloat), wide_b = b.to(at::kFloat);
  return at::equal(wide_a.isnan(), wide_b.isnan()) &&
         same_bytes(wide_a.masked_fill(wide_a.isnan(), 0), wide_b.masked_fill(wide_b.isnan(), 0));
}

/// Scales of earlier steps: too small for some numbers, too large, not known; numbers that are not finite.
template <class T, int N, int mantissa>
void expect_delayed_bits(const Tensor& x, const Tensor& past, at::ScalarType type) {
  SCOPED_TRACE(std::string(c10::toString(x.scalar_type())) + " to " + c10::toString(type));
  const int64_t rows = x.size(0), columns = x.size(1);
  const Tensor seen = at::zeros({float8_cu::kLargestParts}), of_operators = at::zeros_like(seen);
  const auto expected = optrush::float8::quantize_both_ways(x, type, optrush::float8::Scaling::tensorwise,
                                                            optrush::float8::Delayed{past, of_operators});
  const Tensor values = at::empty_like(expected.rows.values), scale = at::empty({1, 1});
  const Tensor turned = at::empty_like(expected.columns.values);
  const auto tiles = tiles_of(rows, columns, float8_cu::kTileRows);
  optrush::testing::launch(tiles, {float8_cu::kThreads, 1, 1}, [&] {
    float8_cu::quantize<T, N, mantissa, true>(
        numbers<T>(x), past.const_data_ptr<float>(), static_cast<int>(past.numel()), 1,
        seen.mutable_data_ptr<float>(), static_cast<unsigned char*>(values.data_ptr()),
        static_cast<unsigned char*>(turned.data_ptr()), scale.mutable_data_ptr<float>(), rows, columns,
        columns);
  });
  EXPECT_TRUE(same_numbers(values, expected.rows.values));
  EXPECT_TRUE(same_numbers(turned, expected.columns.values));
  EXPECT_TRUE(at::equal(scale, expected.rows.scale));
  if (at::isfinite(x).all().item<bool>()) {
    EXPECT_EQ(seen.max().item<float>(), x.abs().max().item<float>());
    EXPECT_EQ(of_operators.max().item<float>(), x.abs().max().item<float>());
  }
}

TEST(Float8Kernel, DelayedScalesRoundLikeTheOperators) {
  at::manual_seed(4);
  Tensor unusual = at::randn({64, 48});
  unusual[3][5] = std::numeric_limits<float>::infinity(), unusual[7][40] = std::nanf("");
  unusual[9][1] = -std::numeric_limits<float>::infinity();
  for (const float largest : {0.5F, 100.0F, 0.0F})
    for (const Tensor& x : {at::randn({80, 144}), unusual}) {
      Tensor past = at::zeros({16});
      past[11] = largest;
      expect_delayed_bits<float, 4, 3>(x, past, at::kFloat8_e4m3fn);
      expect_delayed_bits<float, 1, 2>(x, past, at::kFloat8_e5m2);
      expect_delayed_bits<__nv_bfloat16, 8, 2>(x.to(at::kBFloat16), past, at::kFloat8_e5m2);
      expect_delayed_bits<__half, 8, 3>(x.to(at::kHalf), past, at::kFloat8_e4m3fn);
    }
}

using Bf16 = __nv_bfloat16;

template <class Place>
Place place_of(const optrush::fused::Rounded& made, int64_t columns) {
  const auto bytes = [](const Tensor& tensor) { return static_cast<unsigned char*>(tensor.data_ptr()); };
  const auto& [past, seen] = made.rounding.scale;
  return {past.const_data_ptr<float>(),
          seen.mutable_data_ptr<float>(),
          bytes(made.values),
          bytes(made.transposed),
          made.scale.mutable_data_ptr<float>(),
          past.numel(),
          made.values.size(0),
          columns,
          made.values.size(1)};
}

/// The bits of a kernel that writes bf16 and of the kernel that quantizes what it wrote.
template <int N, bool kGelu>
void expect_bits_of_two_kernels(int64_t rows, int64_t columns, float largest) {
  using optrush::fused::Rounding;
  const auto random = [&] { return at::randn({rows, columns}).to(at::kBFloat16); };
  const Tensor gate = random(), up = random(), g = random(), past = at::zeros({16});
  const Tensor out = at::empty_like(g), d_gate = at::empty_like(g), d_up = at::empty_like(g);
  past[11] = largest;
  const Place threads{float8_cu::kThreads, 1, 1};
  const auto all = static_cast<unsigned int>((g.numel() / N + 255) / 256);
  const auto to = [](const Tensor& tensor) { return reinterpret_cast<Bf16*>(tensor.data_ptr()); };
  optrush::testing::launch(all, threads, [&] {
    glu_cu::glu_forward<Bf16, N, kGelu>(to(gate), to(up), to(out), g.numel(), nullptr);
  });
  optrush::testing::launch(all, threads, [&] {
    glu_cu::glu_backward<Bf16, N, kGelu>(to(gate), to(up), to(g), to(d_gate), to(d_up), g.numel(), g.numel(),
                                         g.numel(), nullptr);
  });
  const auto expect = [&](const optrush::Tensors& written, at::ScalarType type, const auto& launch) {
    const auto expected = optrush::float8::quantize_both_ways(
        written, type, optrush::float8::Scaling::tensorwise, {past, at::zeros({float8_cu::kLargestParts})});
    const Rounding rounding{type, {past, at::zeros({float8_cu::kLargestParts})}, true};
    const auto made = optrush::fused::new_rounded(rounding, rows, std::ssize(written) * columns);
    launch(place_of<rounded_glu_cu::Rounded>(made, columns));
    EXPECT_TRUE(same_bytes(made.values, expected.rows.values));
    EXPECT_TRUE(same_bytes(made.transposed, expected.columns.values));
    EXPECT_TRUE(at::equal(made.scale, expected.rows.scale));
    EXPECT_EQ(rounding.scale.seen.max().item<float>(), at::cat(written).abs().max().item<float>());
  };
  expect({out}, at::kFloat8_e4m3fn, [&](const rounded_glu_cu::Rounded& place) {
    optrush::testing::launch(tiles_of(rows, columns, rounded_glu_cu::kForwardRows), threads, [&] {
      rounded_glu_cu::rounded_glu_forward<Bf16, N, kGelu, 3, true>(to(gate), to(up), place);
    });
  });
  expect({d_gate, d_up}, at::kFloat8_e5m2, [&](const rounded_glu_cu::Rounded& place) {
    optrush::testing::launch(tiles_of(rows, columns, rounded_glu_cu::kBackwardRows), threads, [&] {
      rounded_glu_cu::rounded_glu_backward<Bf16, N, kGelu, 2, true>(to(gate), to(up), to(g), place);
    });
  });
}

TEST(Float8Kernel, GatedUnitsIn8BitsHaveTheBitsOfTwoKernels) {
  at::manual_seed(6);
  for (const float largest : {0.5F, 100.0F, 0.0F}) {
    expect_bits_of_two_kernels<8, false>(80, 144, largest);
    expect_bits_of_two_kernels<8, true>(16, 272, largest);
    expect_bits_of_two_kernels<1, false>(64, 16, largest);
  }
}

/// A norm in `threads` threads, `steps` loads each; S: type of x, delta and their sum.
template <class S, int steps, int threads, bool adds, int tile_rows>
void expect_norm_of_two_kernels(int64_t rows, int64_t columns, float largest) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + " in " + std::to_string(tile_rows));
  constexpr double kEps = 1e-5;
  constexpr bool kNarrow = std::is_same_v<S, Bf16>;
  constexpr int kLanes = 16 / sizeof(S);
  const auto random = [&] { return at::randn({rows, columns}).to(kNarrow ? at::kBFloat16 : at::kFloat); };
  const Tensor x = random(), delta = random(), weight = at::rand({columns}), past = at::zeros({16});
  past[3] = largest;
  const auto to = [](const Tensor& tensor) { return reinterpret_cast<S*>(tensor.data_ptr()); };
  const auto floats = [](const Tensor& tensor) { return tensor.mutable_data_ptr<float>(); };
  const Tensor out = at::empty_like(x, at::kBFloat16), sum = at::empty_like(x), rstd = at::empty({rows});
  const Place in_block{threads, 1, 1};
  optrush::testing::launch(static_cast<unsigned int>(rows), in_block, [&] {
    norm_cu::norm_forward<S, S, Bf16, kLanes, steps, threads, adds>(to(x), to(delta), floats(weight), to(sum),
                                                                    reinterpret_cast<Bf16*>(out.data_ptr()),
                                                                    floats(rstd), columns, kEps, nullptr);
  });
  const auto expected =
      optrush::float8::quantize_both_ways(out, at::kFloat8_e4m3fn, optrush::float8::Scaling::tensorwise,
                                          {past, at::zeros({float8_cu::kLargestParts})});
  for (const bool turns : {true, false}) {
    const optrush::fused::Rounding rounding{
        at::kFloat8_e4m3fn, {past, at::zeros({float8_cu::kLargestParts})}, turns};
    const auto made = optrush::fused::new_rounded(rounding, rows, columns);
    auto place = place_of<rounded_norm_cu::Rounded>(
        {rounding, made.values, turns ? made.transposed : at::empty({0}, at::kByte), made.scale}, columns);
    const Tensor own_sum = at::empty_like(x), own_rstd = at::empty({rows});
    const auto blocks = static_cast<unsigned int>((rows + tile_rows - 1) / tile_rows);
    const auto run = [&](auto kernel) {
      optrush::testing::launch(blocks, in_block, [&] {
        kernel(to(x), to(delta), floats(weight), to(own_sum), floats(own_rstd), kEps, place);
      });
    };
    run(turns ? rounded_norm_cu::rounded_norm<S, S, kLanes, steps, threads, adds, tile_rows, true>
              : rounded_norm_cu::rounded_norm<S, S, kLanes, steps, threads, adds, tile_rows, false>);
    EXPECT_TRUE(same_bytes(made.values, expected.rows.values));
    EXPECT_TRUE(!turns || same_bytes(made.transposed, expected.columns.values));
    EXPECT_TRUE(at::equal(made.scale, expected.rows.scale));
    EXPECT_TRUE(!adds || same_bytes(own_sum, sum));
    EXPECT_TRUE(same_bytes(own_rstd, rstd));
    EXPECT_EQ(rounding.scale.seen.max().item<float>(), out.abs().max().item<float>());
  }
}

TEST(Float8Kernel, NormsIn8BitsHaveTheBitsOfTwoKernels) {
  at::manual_seed(8);
  expect_norm_of_two_kernels<Bf16, 2, 32, true, 32>(48, 272, 0.5F);
  expect_norm_of_two_kernels<Bf16, 1, 64, false, 16>(32, 512, 2);
  for (const float largest : {100.0F, 0.0F})
    expect_norm_of_two_kernels<float, 1, 32, true, 32>(16, 16, largest);
}

/// The update of bf16 weights notes the largest value of each weight that it writes, not of one that it
/// skips.
TEST(Float8Kernel, AnUpdateNotesTheLargestWeight) {
  at::manual_seed(9);
  const auto floats = [](const Tensor& tensor) { return tensor.mutable_data_ptr<float>(); };
  const std::vector<int64_t> sizes = {8200, 77};  // two blocks, and numbers that fill no pack
  optrush::Tensors gradients, masters, firsts, seconds, weights;
  update_cu::Pieces all{};
  int first_block = 0;
  for (const int64_t size : sizes) {
    gradients.push_back(at::randn({size}).to(at::kBFloat16));
    masters.push_back(at::randn({size}));
    firsts.push_back(at::zeros({size}));
    seconds.push_back(at::zeros({size}));
    weights.push_back(masters.back().to(at::kBFloat16));
    all.pieces[all.count] = {gradients.back().const_data_ptr(),
                             floats(masters.back()),
                             floats(firsts.back()),
                             floats(seconds.back()),
                             reinterpret_cast<Bf16*>(weights.back().data_ptr()),
                             size,
                             1 - all.count,
                             first_block};
    ++all.count;
    first_block += static_cast<int>((size + 8191) / 8192);
  }
  const Tensor steps = at::zeros({2}, at::kInt), of_shards = at::full({2, 4}, 5.0), lr = at::full({1}, 0.1);
  auto* const shards = reinterpret_cast<update_cu::OfShard*>(of_shards.data_ptr());
  const auto step = [&](const Tensor& skip) {
    const float* const skips = skip.defined() ? skip.const_data_ptr<float>() : nullptr;
    optrush::testing::launch(1, {64, 1, 1}, [&] {
      update_cu::prepare(all, steps.mutable_data_ptr<int>(), shards, floats(lr), skips, 0.9, 0.95, 0.1, 3);
    });
    optrush::testing::launch(static_cast<unsigned int>(first_block), {256, 1, 1}, [&] {
      update_cu::update<Bf16, true, true>(all, shards, skips, 0.9F, 0.95F, 1e-8F);
    });
  };
  step(at::ones({1}));
  EXPECT_EQ(of_shards.min().item<float>(), 5);
  for (int again = 0; again < 2; ++again) {
    step({});
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_TRUE(at::equal(weights[i], masters[i].to(at::kBFloat16)));
      EXPECT_EQ(of_shards[1 - static_cast<int64_t>(i)][3].item<float>(),
                weights[i].abs().max().item<float>());
    }
  }
}

optrush::fused::RoundingOffer offer_of(const Tensor& past) {
  const Tensor seen = at::zeros({float8_cu::kLargestParts});
  return {optrush::fused::Rounding{at::kFloat8_e5m2, {past, seen}, true},
          {},
          at::full({1}, std::nanf(""), at::TensorOptions(at::kBFloat16))};
}

TEST(Float8Kernel, AnOfferIsOfAllOutputsOfOneCallUntilTheyChange) {
  using optrush::fused::offered_rounding;
  const Tensor past = at::ones({16}), gate = at::ones({16, 32}), up = at::ones({16, 32});
  optrush::fused::offer_rounding({gate, up}, offer_of(past));
  const auto offered = [](const Tensor& a, const Tensor& b) { return offered_rounding({a, b}) != nullptr; };
  EXPECT_TRUE(offered(gate, up));
  EXPECT_FALSE(offered(up, gate));
  EXPECT_EQ(offered_rounding({gate}), nullptr);
  EXPECT_FALSE(offered(gate, up.clone()));
  EXPECT_FALSE(offered(gate, up.narrow(0, 0, 16)));
  const Tensor of_another_call = at::ones({16, 32});
  optrush::fused::offer_rounding({at::ones({1}), of_another_call}, offer_of(past));
  EXPECT_FALSE(offered(gate, of_another_call));
  up.add_(1);
  EXPECT_FALSE(offered(gate, up));
  optrush::fused::offer_rounding(gate, offer_of(past));
  EXPECT_NE(offered_rounding(gate), nullptr);
  optrush::fused::withdraw_rounding(gate);
  EXPECT_EQ(offered_rounding(gate), nullptr);
}

TEST(Float8Kernel, ATensorWithoutNumbersIsReadIn8BitsAlone) {
  using namespace optrush::fused;
  const Tensor past = at::ones({2, 16}), first = past.select(0, 0), second = past.select(0, 1);
  const RoundingOffer offer = offer_of(first);
  const Rounding& rounding = *offer.gradients;
  const auto made = without_numbers(new_rounded(rounding, 48, 64), offer, {3, 16, 32}, 2);
  EXPECT_EQ(made.at(0).sizes(), at::IntArrayRef({3, 16, 32}));
  EXPECT_TRUE(made.at(0).isnan().all().item<bool>());
  optrush::Tensors matrices;
  for (const Tensor& each : made) {
    matrices.push_back(each.reshape({48, 32}));
    EXPECT_EQ(carried(matrices.back(), rounding), nullptr);
    carry_over(each, matrices.back());
  }
  const auto matrix = carried(matrices, rounding);
  ASSERT_NE(matrix, nullptr);
  EXPECT_EQ(matrix->values.sizes(), at::IntArrayRef({48, 64}));
  EXPECT_EQ(matrix->transposed.sizes(), at::IntArrayRef({64, 48}));
  const auto refused = [&](const optrush::Tensors& tensors, const Rounding& wanted) {
    return optrush::testing::error_of([&] { static_cast<void>(carried(tensors, wanted)); });
  };
  const std::string columns = "without its other columns", scale = "with another scale";
  EXPECT_NE(refused({matrices[0]}, rounding).find(columns), std::string::npos);
  EXPECT_NE(refused({matrices[1], matrices[0]}, rounding).find(columns), std::string::npos);
  EXPECT_NE(refused({matrices[0], at::ones({48, 32})}, rounding).find(columns), std::string::npos);
  EXPECT_NE(refused(matrices, {rounding.type, {second, {}}, true}).find(scale), std::string::npos);
  EXPECT_NE(refused(matrices, {at::kFloat8_e4m3fn, rounding.scale, true}).find(scale), std::string::npos);
  matrices[1].unsafeGetTensorImpl()->bump_version();
  EXPECT_NE(refused(matrices, rounding).find(columns), std::string::npos);
}

/// A scale from the maxima that the kernel of a norm or of a gated unit records has the bits of a scale from
/// a separate pass.
TEST(Float8Kernel, NotedMaximaGiveTheSameScale) {
  at::manual_seed(3);
  const Tensor x = at::randn({16, 272}).to(at::kBFloat16);
  const Tensor parts = at::zeros({float8_cu::kLargestParts});
  optrush::testing::launch(17, {32, 1, 1}, [&] {  // blocks of one warp
    float some[8];
    const auto at = (blockIdx.x * 32 + threadIdx.x) * 8;
    float8_cu::load(numbers<__nv_bfloat16>(x) + at, some);
    float8_cu::note_largest<__nv_bfloat16>(parts.mutable_data_ptr<float>(), float8_cu::largest_of(some));
  });
  EXPECT_EQ(parts.count_nonzero().item<int64_t>(), 17);
  EXPECT_EQ(parts.max().item<float>(), x.abs().max().item<float>());
}

/// Groups both ways of two matrices side by side, and blocks of one, by N numbers at a time.
template <class T, int N>
void expect_bits_of_groups(const Tensor& x) {
  SCOPED_TRACE(std::string(c10::toString(x.scalar_type())) + " " + std::to_string(N) + " at a time");
  using optrush::float8::Scaling;
  const int64_t rows = x.size(0), columns = x.size(1);
  const auto type = at::kFloat8_e4m3fn;
  const auto bytes = [](const Tensor& tensor) { return static_cast<unsigned char*>(tensor.data_ptr()); };
  const auto floats = [](const Tensor& tensor) { return tensor.mutable_data_ptr<float>(); };
  const Place threads{groups_cu::kThreads, 1, 1};
  const auto expected = optrush::float8::quantize_both_ways(x, type, Scaling::groupwise);
  const Tensor values = at::empty_like(expected.rows.values),
               turned = at::empty_like(expected.columns.values);
  const Tensor scale = at::empty_like(expected.rows.scale),
               turned_scale = at::empty_like(expected.columns.scale);
  int64_t column = 0;
  for (const Tensor& part : x.split({128, columns - 128}, 1)) {
    const Tensor dense = part.contiguous();
    optrush::testing::launch(static_cast<unsigned int>(dense.numel() / 128 / 128), threads, [&, column] {
      groups_cu::quantize_groups<T, N, false, true>(
          numbers<T>(dense), bytes(values) + column, floats(scale) + column / 128 * rows,
          bytes(turned) + column * rows, floats(turned_scale) + column, rows, dense.size(1), columns, 0);
    });
    column += dense.size(1);
  }
  EXPECT_TRUE(same_bytes(values, expected.rows.values));
  EXPECT_TRUE(same_bytes(turned, expected.columns.values));
  EXPECT_TRUE(at::equal(scale, expected.rows.scale));
  EXPECT_TRUE(at::equal(turned_scale, expected.columns.scale));

  const auto blocks = optrush::float8::quantize(x, type, Scaling::blockwise);
  const Tensor scale_of_blocks = at::zeros_like(blocks.scale);
  const auto tiles = static_cast<unsigned int>(x.numel() / 128 / 128);
  optrush::testing::launch(tiles, threads, [&] {
    groups_cu::quantize_groups<T, N, true, false>(numbers<T>(x), bytes(values), floats(scale_of_blocks),
                                                  nullptr, nullptr, rows, columns, columns,
                                                  blocks.scale.size(1));
  });
  EXPECT_TRUE(same_bytes(values, blocks.values));
  EXPECT_TRUE(at::equal(scale_of_blocks, blocks.scale));
}

TEST(Float8Kernel, GroupsAndBlocksRoundLikeTheOperators) {
  at::manual_seed(5);
  const Tensor x = at::randn({256, 384}) * at::logspace(-15, 15, 384);
  x.slice(0, 128).slice(1, 0, 128).zero_();
  expect_bits_of_groups<__nv_bfloat16, 8>(x.to(at::kBFloat16));
  const Tensor smaller =
      x.slice(0, 0, 128).slice(1, 0, 256).contiguous();  // most of the time is for barriers
  expect_bits_of_groups<float, 4>(smaller);
  expect_bits_of_groups<float, 1>(smaller);
  expect_bits_of_groups<__half, 8>(at::randn({128, 256}).to(at::kHalf));
}

/// The record of a tensor is dropped at its next change, and does not apply to its copies.
TEST(Float8Kernel, NotedMaximaAreDroppedWhenTheTensorChanges) {
  const Tensor x = at::ones({4}), parts = optrush::fused::new_largest_parts(x);
  EXPECT_FALSE(optrush::fused::noted_largest(x).defined());
  optrush::fused::note_largest(x, parts);
  EXPECT_TRUE(optrush::fused::noted_largest(x).is_same(parts));
  EXPECT_TRUE(optrush::fused::noted_largest(x.detach()).defined());
  EXPECT_FALSE(optrush::fused::noted_largest(x.clone()).defined());
  EXPECT_FALSE(optrush::fused::noted_largest(x.narrow(0, 0, 2)).defined());
  const Tensor alias = x.detach();
  x.add_(1);
  EXPECT_FALSE(optrush::fused::noted_largest(x).defined());
  EXPECT_FALSE(optrush::fused::noted_largest(alias).defined());
}

/// A kernel outside of ATen does not change the version of the tensor.
TEST(Float8Kernel, AStaleMaximumIsFoundByACheck) {
  const Tensor x = at::ones({4}), parts = optrush::fused::new_largest_parts(x);
  parts[7] = 1;
  optrush::fused::note_largest(x, parts);
  ::setenv("OPTRUSH_CHECK_LARGEST", "1", 1);
  EXPECT_TRUE(optrush::fused::noted_largest(x).is_same(parts));
  x.mutable_data_ptr<float>()[2] = -3;
  const auto told = optrush::testing::error_of([&] { static_cast<void>(optrush::fused::noted_largest(x)); });
  EXPECT_NE(told.find("is 1.000000, but 3.000000 was found"), std::string::npos) << told;
  x.unsafeGetTensorImpl()->bump_version();
  EXPECT_FALSE(optrush::fused::noted_largest(x).defined());
}

/// Every finite number of 16 bits up to a largest one: normal, subnormal, ties, and zeros of both signs.
TEST(Float8Kernel, RoundsEveryNumberOf16Bits) {
  const Tensor all = at::arange(0, 1 << 16, at::kInt).to(at::kShort).view(at::kBFloat16);
  const Tensor finite = at::where(all.isfinite(), all, at::zeros_like(all)).view({256, 256});
  for (const double largest : {1e-3, 1.0, 57344.0, 3e20}) {
    const Tensor some = at::where(finite.abs() <= largest, finite, at::zeros_like(finite)).contiguous();
    expect_both_formats<__nv_bfloat16, 8>(some);
  }
}

TEST(Float8Kernel, HandlesZerosAndNaN) {
  expect_each_type(at::zeros({16, 32}));
  Tensor x = at::randn({16, 32});
  x[3][5] = std::numeric_limits<double>::quiet_NaN();
  const Tensor parts = at::ones({1}), scale = at::empty({1}), values = at::empty({16, 32}, at::kByte);
  optrush::testing::launch(1, {float8_cu::kThreads, 1, 1}, [&] {
    float8_cu::quantize<float, 4, 3, false>(x.const_data_ptr<float>(), parts.const_data_ptr<float>(), 1, 0,
                                            nullptr, values.mutable_data_ptr<uint8_t>(), nullptr,
                                            scale.mutable_data_ptr<float>(), 16, 32, 32);
  });
  EXPECT_TRUE(at::isnan(values.view(at::kFloat8_e4m3fn).to(at::kFloat)[3][5]).item<bool>());
}
}  // namespace
