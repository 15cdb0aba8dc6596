// The results of GPU kernels without a GPU: threads of the host run their sources, compared with formulas.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>

#include "support/cuda_on_threads.h"

namespace {
namespace loss {
#include "fused_linear_cross_entropy/gpu/cross_entropy.cu"
}
namespace scale {
#include "fused_linear_cross_entropy/gpu/rescale.cu"
}
namespace norms {
#include "fused_kernels/gpu/norm.cu"
}
namespace rotary {
#include "fused_kernels/gpu/rotate.cu"
}
namespace mlp {
#include "fused_kernels/gpu/glu.cu"
}

using optrush::testing::launch;
using Numbers = std::vector<double>;

template <class T>
T narrowed(double x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(static_cast<float>(x));
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

/// Numbers in memory for a kernel, aligned to 16 bytes.
template <class T>
class Memory {
 public:
  explicit Memory(size_t count) : count_(count), raw_((count * sizeof(T) + 15) / 16) {}
  explicit Memory(const Numbers& values) : Memory(values.size()) {
    for (size_t i = 0; i < count_; ++i) data()[i] = narrowed<T>(values[i]);
  }
  T* data() { return reinterpret_cast<T*>(raw_.data()); }
  Numbers numbers() {
    Numbers all(count_);
    for (size_t i = 0; i < count_; ++i) all[i] = static_cast<double>(norms::widen(data()[i]));
    return all;
  }

 private:
  size_t count_;
  std::vector<uint4> raw_;
};

Numbers random_numbers(size_t count, unsigned seed, double scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, scale);
  Numbers all(count);
  for (double& each : all) each = normal(generator);
  return all;
}

void expect_near(const Numbers& got, const Numbers& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << i;
}

double largest_of(const Numbers& all) {
  double largest = 0;
  for (const double each : all) largest = std::max(largest, std::abs(each));
  return largest;
}

template <class T>
constexpr double kTolerance = sizeof(T) == 8   ? 1e-12
                              : sizeof(T) == 4 ? 2e-6
                                               : 1.0 / 128;

/// The largest block of the loss; the host's threads have no limit of registers.
constexpr int kLossThreads = 1024;

template <class T, int N, bool gradient = true, bool capped = false>
void check_loss(int width, unsigned int threads, const double* factor = nullptr) {
  SCOPED_TRACE("width " + std::to_string(width) + ", type of " + std::to_string(sizeof(T)) + " bytes");
  constexpr int kRows = 3, kIgnored = -100;
  constexpr double kSoftCap = 3;
  const int stride = (width + N - 1) / N * N;
  Memory<T> logits(random_numbers(static_cast<size_t>(kRows * stride), 1, 4));
  const Numbers given = logits.numbers();
  const long long labels[kRows] = {width - 1, kIgnored, width / 2};
  Memory<loss::Wide<T>> losses(kRows);
  launch(kRows, {threads, 1, 1}, [&] {
    loss::cross_entropy<T, N, gradient, capped, kLossThreads, 1>(logits.data(), labels, losses.data(), width,
                                                                 stride, kIgnored, kSoftCap, factor);
  });
  Numbers expected = given, expected_losses(kRows, 0.0);
  for (int row = 0; row < kRows; ++row) {
    Numbers behind(given.begin() + row * stride, given.begin() + row * stride + width),
        slopes(behind.size(), 1);
    for (size_t i = 0; i < behind.size() && capped; ++i) {
      const double t = std::tanh(behind[i] / kSoftCap);
      behind[i] = kSoftCap * t;
      slopes[i] = 1 - t * t;
    }
    const auto begin = behind.begin();
    const double top = *std::max_element(begin, begin + width);
    const double sum = std::accumulate(begin, begin + width, 0.0,
                                       [&](double all, double x) { return all + std::exp(x - top); });
    const double log_sum = top + std::log(sum);
    const bool counts = labels[row] != kIgnored;
    if (counts) expected_losses[static_cast<size_t>(row)] = log_sum - begin[labels[row]];
    for (int i = 0; i < width && gradient; ++i)
      expected[static_cast<size_t>(row * stride + i)] =
          counts ? (std::exp(begin[i] - log_sum) - (i == labels[row] ? 1 : 0)) *
                       slopes[static_cast<size_t>(i)] * (factor == nullptr ? 1 : *factor)
                 : 0;
  }
  expect_near(losses.numbers(), expected_losses, sizeof(T) == 8 ? 1e-12 : 2e-6);
  Numbers got = logits.numbers();
  for (int row = 0; row < kRows; ++row)  // bytes after the end of a row are ignored
    for (int i = width; i < stride; ++i)
      got[static_cast<size_t>(row * stride + i)] = expected[static_cast<size_t>(row * stride + i)];
  expect_near(got, expected, kTolerance<T>);
}

TEST(GpuSources, WrongLabelGivesNaNInItsRowAlone) {
  constexpr int kRows = 3, kWidth = 131, kIgnored = -100;
  for (const long long wrong : {-1LL, static_cast<long long>(kWidth), 1LL << 40}) {
    Memory<float> logits(random_numbers(kRows * kWidth, 1, 4));
    const long long labels[kRows] = {5, wrong, kWidth - 1};
    Memory<float> losses(kRows);
    launch(kRows, {64, 1, 1}, [&] {
      loss::cross_entropy<float, 1, true, false, kLossThreads, 1>(logits.data(), labels, losses.data(),
                                                                  kWidth, kWidth, kIgnored, 0, nullptr);
    });
    const Numbers gradient = logits.numbers(), of_rows = losses.numbers();
    for (int row = 0; row < kRows; ++row) {
      EXPECT_EQ(std::isnan(of_rows[static_cast<size_t>(row)]), row == 1);
      for (int i = 0; i < kWidth; ++i)
        ASSERT_EQ(std::isnan(gradient[static_cast<size_t>(row * kWidth + i)]), row == 1) << row << " " << i;
    }
  }
}

TEST(GpuSources, GradientOfTheLossTimesAFactor) {
  const double factor = 0.3;
  check_loss<float, 4>(131, 64, &factor);
  check_loss<double, 2, true, true>(131, 32, &factor);
  check_loss<__nv_bfloat16, 8>(131, 32, &factor);
}

/// Numbers that were made with the gradient keep their bits; others are multiplied.
template <class T, int N>
void check_rescaling(unsigned int blocks) {
  constexpr size_t kCount = 264;
  const double factor = 0.3;
  Memory<T> numbers(random_numbers(kCount, 1));
  const Numbers given = numbers.numbers();
  Numbers expected = given;
  for (const double gradient : {0.3, 0.7}) {
    const auto wide = static_cast<scale::Wide<T>>(gradient);
    launch(blocks, {64, 1, 1},
           [&] { scale::rescale<T, N>(numbers.data(), &wide, &factor, static_cast<long long>(kCount)); });
    if (gradient != factor)
      for (double& each : expected) each *= gradient / factor;
    expect_near(numbers.numbers(), expected, gradient == factor ? 0 : kTolerance<T>);
  }
}

TEST(GpuSources, NumbersTimesTheGradientOverTheFactor) {
  check_rescaling<float, 4>(1);
  check_rescaling<float, 1>(2);
  check_rescaling<double, 2>(3);
  check_rescaling<__nv_bfloat16, 8>(1);
  check_rescaling<__half, 8>(2);
}

TEST(GpuSources, LossAndGradientInPlace) {
  for (const int width : {1, 5, 64, 131, 3001}) {
    check_loss<float, 4>(width, 64);
    check_loss<float, 1>(width, 32);
    check_loss<double, 2>(width, 32);
    check_loss<__nv_bfloat16, 8>(width, 32);
    check_loss<__half, 8>(width, 64);
    check_loss<__nv_bfloat16, 8, false>(width, 32);
    check_loss<float, 4, true, true>(width, 64);
    check_loss<double, 2, true, true>(width, 32);
    check_loss<__nv_bfloat16, 8, true, true>(width, 32);
    check_loss<__half, 8, false, true>(width, 64);
  }
}

/// RMSNorm of x + delta (or of x), forward and backward, launched as in launch.cpp. A block has several rows.
template <class S, class D, class O, int N, int steps, bool adds>
void check_norm(int width) {
  SCOPED_TRACE("width " + std::to_string(width) + (adds ? ", residual" : ""));
  using W = norms::Wide<S>;
  constexpr int kThreads = 32, kRows = 5, kBlocks = 2;
  constexpr bool kLowers = adds && !std::is_same_v<S, D>;
  constexpr double kEps = 1e-5;
  ASSERT_LE(width, kThreads * steps * N);
  const auto count = static_cast<size_t>(kRows * width), columns = static_cast<size_t>(width);
  Memory<S> x(random_numbers(count, 1)), sum(count), residual(random_numbers(count, 4)), d_x(count);
  Memory<D> delta(random_numbers(count, 2)), d_delta(count);
  Memory<W> weight(random_numbers(columns, 3)), rstd(kRows), parts(kBlocks * columns);
  Memory<O> out(count), g(random_numbers(count, 5));
  Memory<float> d_weight(columns), largest(norms::kLargestParts), largest_back(norms::kLargestParts);
  launch(kRows, {kThreads, 1, 1}, [&] {
    norms::norm_forward<S, D, O, N, steps, kThreads, adds>(x.data(), adds ? delta.data() : nullptr,
                                                           weight.data(), sum.data(), out.data(), rstd.data(),
                                                           width, kEps, largest.data());
  });
  S* s = adds ? sum.data() : x.data();
  launch(kBlocks, {kThreads, 1, 1}, [&] {
    norms::norm_backward<S, D, O, N, steps, kThreads, adds, kLowers>(
        s, rstd.data(), weight.data(), g.data(), adds ? residual.data() : nullptr, d_x.data(),
        kLowers ? d_delta.data() : nullptr, parts.data(), kRows, width, largest_back.data());
  });
  launch(static_cast<unsigned int>((width + 15) / 16), {16, 4, 1},
         [&] { norms::sum_weight_parts<W, float, 16, 4>(parts.data(), d_weight.data(), kBlocks, width); });

  const Numbers xs = x.numbers(), deltas = delta.numbers(), w = weight.numbers(), gs = g.numbers();
  const Numbers residuals = residual.numbers();
  Numbers sums(count), outs(count), d_xs(count), d_ws(columns, 0.0);
  for (size_t row = 0; row < kRows; ++row) {
    double squares = 0, along = 0;
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) {
      sums[i] = static_cast<double>(norms::widen(narrowed<S>(xs[i] + (adds ? deltas[i] : 0))));
      squares += sums[i] * sums[i];
    }
    const double scale = 1 / std::sqrt(squares / width + kEps);
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) {
      outs[i] = sums[i] * scale * w[i % columns];
      along += gs[i] * w[i % columns] * sums[i];
      d_ws[i % columns] += gs[i] * sums[i] * scale;
    }
    for (size_t i = row * columns; i < (row + 1) * columns; ++i)
      d_xs[i] = gs[i] * w[i % columns] * scale - sums[i] * along * scale * scale * scale / width +
                (adds ? residuals[i] : 0);
  }
  if (adds) expect_near(sum.numbers(), sums, kTolerance<S>);
  expect_near(out.numbers(), outs, kTolerance<O>);
  expect_near(d_x.numbers(), d_xs, 4 * kTolerance<S>);
  if (kLowers) expect_near(d_delta.numbers(), d_xs, 2 * kTolerance<D>);
  expect_near(d_weight.numbers(), d_ws, 1e-5);
  if (sizeof(S) == 8) return;  // parts are in fp32
  EXPECT_EQ(largest_of(largest.numbers()), largest_of(out.numbers()));
  EXPECT_EQ(largest_of(largest_back.numbers()), largest_of(kLowers ? d_delta.numbers() : d_x.numbers()));
}

TEST(GpuSources, NormsWithResidual) {
  check_norm<float, float, float, 4, 2, true>(132);
  check_norm<float, float, float, 4, 2, false>(256);
  check_norm<float, float, float, 1, 3, true>(67);
  check_norm<double, double, double, 2, 2, true>(70);
  check_norm<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, 8, 1, true>(136);
  check_norm<float, __nv_bfloat16, __nv_bfloat16, 8, 1, true>(136);
  check_norm<float, __half, float, 8, 1, true>(136);
  check_norm<float, float, __half, 8, 1, false>(136);
}

template <class T, int N>
void check_rotation() {
  constexpr int kTokens = 3, kWidth = 16, kQueries = 3, kKeys = 1, kHalf = kWidth / 2;
  constexpr int kAll = kTokens * kWidth;
  using W = rotary::Wide<T>;
  Memory<T> q(random_numbers(kQueries * kAll, 1)), k(random_numbers(kKeys * kAll, 2));
  Memory<T> q_out(kQueries * kAll), k_out(kKeys * kAll), q_back(kQueries * kAll), k_back(kKeys * kAll);
  Numbers cosines(kAll), sines(kAll);
  for (int s = 0; s < kTokens; ++s)
    for (int i = 0; i < kWidth; ++i) {
      const double angle = s * std::pow(10.0, -i % kHalf);
      cosines[static_cast<size_t>(s * kWidth + i)] = std::cos(angle);
      sines[static_cast<size_t>(s * kWidth + i)] = std::sin(angle);
    }
  Memory<W> cos(cosines), sin(sines);
  const auto heads = [&](Memory<T>& in, Memory<T>& out, long long count) {  // (tokens, heads, width)
    return rotary::Heads{in.data(), out.data(), count, 0, kWidth, count * kWidth, 0, kWidth, count * kWidth};
  };
  const auto rotate = [&](Memory<T>& q_in, Memory<T>& k_in, Memory<T>& q_to, Memory<T>& k_to, int back) {
    launch(kTokens, {32, 1, 1}, [&] {
      rotary::rotate<T, N>(heads(q_in, q_to, kQueries), heads(k_in, k_to, kKeys), cos.data(), sin.data(), 0,
                           kWidth, kTokens, kWidth, back);
    });
  };
  rotate(q, k, q_out, k_out, 0);
  rotate(q_out, k_out, q_back, k_back, 1);
  const Numbers given = q.numbers(), tables_cos = cos.numbers(), tables_sin = sin.numbers();
  Numbers expected(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const size_t column = i % kWidth, table = i / (kQueries * kWidth) * kWidth + column;
    const double other = column < kHalf ? -given[i + kHalf] : given[i - kHalf];
    expected[i] = given[i] * tables_cos[table] + other * tables_sin[table];
  }
  expect_near(q_out.numbers(), expected, kTolerance<T>);
  expect_near(q_back.numbers(), given, 4 * kTolerance<T>);
  expect_near(k_back.numbers(), k.numbers(), 4 * kTolerance<T>);
}

TEST(GpuSources, RotationsForwardAndBackward) {
  check_rotation<float, 4>();
  check_rotation<float, 1>();
  check_rotation<double, 2>();
  check_rotation<__nv_bfloat16, 8>();
}

/// {value, slope} of x sigmoid(x), or of GELU with tanh.
std::array<double, 2> activation_of(double x, bool gelu) {
  const double first = 2 * std::sqrt(2 / std::numbers::pi), third = first * 0.044715;
  const double argument = gelu ? first * x + third * x * x * x : x;
  const double slope = gelu ? first + 3 * third * x * x : 1, y = 1 / (1 + std::exp(-argument));
  return {x * y, y * (1 + x * (1 - y) * slope)};
}

template <class T, int N, bool kGelu>
void check_glu() {
  constexpr size_t kCount = 264;
  Memory<T> gate(random_numbers(kCount, 1, 5)), up(random_numbers(kCount, 2)), g(random_numbers(kCount, 3));
  Memory<T> out(kCount), d_gate(kCount), d_up(kCount);
  Memory<float> largest(mlp::kLargestParts), of_gate_and_up(2 * mlp::kLargestParts);
  const Place threads{64, 1, 1};
  const auto blocks = static_cast<unsigned int>((kCount / N + 63) / 64);
  launch(blocks, threads,
         [&] { mlp::glu_forward<T, N, kGelu>(gate.data(), up.data(), out.data(), kCount, largest.data()); });
  launch(blocks, threads, [&] {
    mlp::glu_backward<T, N, kGelu>(gate.data(), up.data(), g.data(), d_gate.data(), d_up.data(), kCount,
                                   kCount, kCount, of_gate_and_up.data());
  });
  // The same as columns of one tensor.
  constexpr size_t kWidth = 88;
  Memory<T> joined(2 * kCount);
  launch(blocks, threads, [&] {
    mlp::glu_backward<T, N, kGelu>(gate.data(), up.data(), g.data(), joined.data(), joined.data() + kWidth,
                                   kCount, kWidth, 2 * kWidth, nullptr);
  });
  const Numbers both = joined.numbers(), of_gate = d_gate.numbers(), of_up = d_up.numbers();
  for (size_t i = 0; i < kCount; ++i) {
    const size_t place = i + i / kWidth * kWidth;
    EXPECT_TRUE(both[place] == of_gate[i] && both[place + kWidth] == of_up[i]) << i;
  }
  const Numbers x = gate.numbers(), u = up.numbers(), gs = g.numbers();
  Numbers outs(kCount), d_gates(kCount), d_ups(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const auto [value, slope] = activation_of(x[i], kGelu);
    outs[i] = value * u[i], d_ups[i] = gs[i] * value;
    d_gates[i] = gs[i] * u[i] * slope;
  }
  expect_near(out.numbers(), outs, kTolerance<T>);
  expect_near(d_gate.numbers(), d_gates, 2 * kTolerance<T>);
  expect_near(d_up.numbers(), d_ups, kTolerance<T>);
  if (sizeof(T) == 8) return;  // parts are in fp32
  EXPECT_EQ(largest_of(largest.numbers()), largest_of(out.numbers()));
  const Numbers found = of_gate_and_up.numbers();
  const auto middle = found.begin() + mlp::kLargestParts;
  EXPECT_EQ(largest_of({found.begin(), middle}), largest_of(d_gate.numbers()));
  EXPECT_EQ(largest_of({middle, found.end()}), largest_of(d_up.numbers()));
}

template <class T, int N>
void check_each_activation() {
  check_glu<T, N, false>();
  check_glu<T, N, true>();
}

/// NaN and infinities in one number of a row: its results are not finite.
TEST(GpuSources, NumbersThatAreNotFiniteStayVisible) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()})
    for (const int place : {0, 70, 130}) {
      constexpr int kWidth = 131, kStride = 132;
      Numbers given = random_numbers(2 * kStride, 1);
      given[static_cast<size_t>(place)] = value;
      Memory<float> logits(given), losses(2);
      const long long labels[2] = {5, 5};
      launch(2, {64, 1, 1}, [&] {
        loss::cross_entropy<float, 4, true, false, kLossThreads, 1>(logits.data(), labels, losses.data(),
                                                                    kWidth, kStride, -100, 0, nullptr);
      });
      // A logit of -inf is a probability of 0.
      const bool hidden = value < 0;
      EXPECT_EQ(std::isfinite(losses.numbers()[0]), hidden) << value << ' ' << place;
      EXPECT_TRUE(std::isfinite(losses.numbers()[1]));
      if (!hidden) {
        EXPECT_FALSE(std::isfinite(logits.numbers()[static_cast<size_t>(place)]));
      }
      if (value > 0) continue;

      constexpr int kCount = 264;
      Numbers gates = random_numbers(kCount, 1);
      gates[static_cast<size_t>(place)] = value;
      Memory<float> gate(gates), up(random_numbers(kCount, 2)), out(kCount), largest(mlp::kLargestParts);
      launch(2, {64, 1, 1}, [&] {
        mlp::glu_forward<float, 4, true>(gate.data(), up.data(), out.data(), kCount, largest.data());
      });
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(out.numbers()[static_cast<size_t>(place)]));
      }
    }
}

TEST(GpuSources, GatedLinearUnitsForwardAndBackward) {
  check_each_activation<float, 4>();
  check_each_activation<float, 1>();
  check_each_activation<double, 2>();
  check_each_activation<__nv_bfloat16, 8>();
  check_each_activation<__half, 8>();
}
}  // namespace
