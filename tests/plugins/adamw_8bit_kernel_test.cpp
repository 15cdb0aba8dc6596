// The GPU's update of 8-bit moments, run by threads of the host, equals the CPU's.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/cuda_on_threads.h"

namespace {
namespace adamw_8bit_cu {
#include "adamw_8bit/gpu/update.cu"
}
}  // namespace

#include "adamw_8bit/code.h"
#include "adamw_8bit/pieces.h"

namespace {
namespace host = optrush::adamw_8bit;

constexpr uint64_t kSeed = 5;

struct Numbers {
  std::vector<float> gradient, data, first_scales, second_scales;
  std::vector<uint16_t> low;  ///< `data` in bf16
  std::vector<uint8_t> first, second;
  explicit Numbers(size_t count)
      : gradient(count),
        data(count),
        first_scales((count + 255) / 256),
        second_scales((count + 255) / 256),
        low(count),
        first(count),
        second(count) {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> code(0, 255);
    for (float& x : gradient) x = normal(generator);
    for (float& x : data) x = normal(generator);
    for (size_t i = 0; i < count; ++i) low[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(data[i]) >> 16);
    for (uint8_t& x : first) x = static_cast<uint8_t>(code(generator));
    for (uint8_t& x : second) x = static_cast<uint8_t>(code(generator));
    for (float& x : first_scales) x = 0.5F;
    for (float& x : second_scales) x = 0.25F;
  }
  host::Piece piece(bool in_bf16) {
    return {.gradient = gradient.data(),
            .data = in_bf16 ? static_cast<void*>(low.data()) : data.data(),
            .first = first.data(),
            .second = second.data(),
            .first_scales = first_scales.data(),
            .second_scales = second_scales.data(),
            .count = static_cast<int64_t>(gradient.size())};
  }
};

/// W: type of the data on the GPU. `bad`: a gradient that is not finite, of number 3; 0: none.
template <class W>
void check_update(size_t count, bool shifted, float bad = 0) {
  constexpr bool kLow = sizeof(W) == 2;
  SCOPED_TRACE(std::to_string(count) + (shifted ? " shifted" : "") + (kLow ? " bf16" : ""));
  Numbers cpu(count), device(count);
  if (bad != 0) cpu.gradient[3] = device.gradient[3] = bad;
  const double beta1 = 0.9, beta2 = 0.95, lr = 0.01, decay = 0.1, steps = 3;
  const host::Factors factors{{.beta1 = static_cast<float>(beta1),
                               .beta2 = static_cast<float>(beta2),
                               .eps = 1e-8F,
                               .keep = static_cast<float>(1 - lr * decay),
                               .step_size = static_cast<float>(lr / (1 - std::pow(beta1, steps))),
                               .root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, steps)))},
                              host::rounding_seed(kSeed, 0, static_cast<uint32_t>(steps))};
  host::cpu::update(cpu.piece(kLow), {host::Type::fp32, kLow ? host::Type::bf16 : host::Type::fp32}, factors,
                    0, static_cast<int64_t>(cpu.first_scales.size()));
  static adamw_8bit_cu::Tables tables;
  for (const auto& [to, from] :
       {std::pair(&tables.first, &host::signed_code()), {&tables.second, &host::unsigned_code()}}) {
    std::ranges::copy(from->values, to->values);
    for (size_t i = 0; i < from->buckets.size(); ++i) {
      const auto& [border, low] = from->buckets[i];
      to->lows[i] = static_cast<unsigned char>(low);
      to->borders[low] = border;
    }
  }
  adamw_8bit_cu::Pieces pieces{};
  pieces.count = 1;
  const host::Piece numbers = device.piece(kLow);
  pieces.pieces[0] = {numbers.gradient,
                      numbers.data,
                      numbers.first,
                      numbers.second,
                      numbers.first_scales,
                      numbers.second_scales,
                      static_cast<long long>(count),
                      0,
                      0};
  adamw_8bit_cu::Factors on_device{};
  const auto counted = static_cast<float>(steps), rate = static_cast<float>(lr);
  optrush::testing::launch(1, {64, 1, 1}, [&] {
    adamw_8bit_cu::prepare(pieces, &counted, &on_device, &rate, nullptr, beta1, beta2, decay, /*decayed=*/1);
  });
  const auto blocks = static_cast<unsigned int>((count + 16383) / 16384);
  optrush::testing::launch(blocks, {adamw_8bit_cu::kWarps * 32, 1, 1}, [&] {
    const auto update =
        shifted ? adamw_8bit_cu::update<float, W, false> : adamw_8bit_cu::update<float, W, true>;
    update(pieces, &on_device, nullptr, &tables, factors.beta1, factors.beta2, factors.eps, &counted,
           static_cast<unsigned>(kSeed));
  });
  if (bad != 0) {
    for (const Numbers* numbers : {&cpu, &device}) {
      EXPECT_FALSE(std::isfinite(numbers->first_scales[0]));
      EXPECT_FALSE(std::isfinite(numbers->second_scales[0]));
      if (!kLow) {
        EXPECT_FALSE(std::isfinite(numbers->data[3]));
      }
      for (size_t b = 1; b < numbers->first_scales.size(); ++b)
        EXPECT_TRUE(std::isfinite(numbers->first_scales[b]));
    }
    return;
  }
  size_t other = 0;
  for (size_t i = 0; i < count; ++i) {
    if (kLow) {
      // A number near a border of the random bits may be rounded to its neighbour.
      ASSERT_LE(std::abs(int{device.low[i]} - int{cpu.low[i]}), 1) << i;
      other += device.low[i] != cpu.low[i] ? 1 : 0;
    } else {
      ASSERT_NEAR(device.data[i], cpu.data[i], 1e-5F * std::max(1.0F, std::abs(cpu.data[i]))) << i;
    }
    // Sums are rounded in another order, so a number near a border may get the adjacent code.
    ASSERT_LE(std::abs(int{device.first[i]} - int{cpu.first[i]}), 1) << i;
    ASSERT_LE(std::abs(int{device.second[i]} - int{cpu.second[i]}), 1) << i;
  }
  EXPECT_LE(other, count / 100);
  for (size_t b = 0; b < cpu.first_scales.size(); ++b) {
    EXPECT_FLOAT_EQ(device.first_scales[b], cpu.first_scales[b]) << b;
    EXPECT_FLOAT_EQ(device.second_scales[b], cpu.second_scales[b]) << b;
  }
}

template <class W>
void check_sizes() {
  check_update<W>(256 * 3, false);
  check_update<W>(256 * 2 + 100, false);
  check_update<W>(5, false);
  check_update<W>(256 + 77, true);
  check_update<W>(16384 + 300, false);
}

TEST(AdamW8bitKernel, UpdateMatchesCpu) { check_sizes<float>(); }
TEST(AdamW8bitKernel, AGradientThatIsNotFiniteStaysVisible) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    check_update<float>(256 * 2 + 100, false, bad);
    check_update<__nv_bfloat16>(5, false, bad);
  }
}
TEST(AdamW8bitKernel, Bf16RoundingMatchesCpu) { check_sizes<__nv_bfloat16>(); }
}  // namespace
