// The GPU's decoding of 4-bit numbers, run by threads of the host, gives the bits of the CPU's.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "support/cuda_on_threads.h"

namespace {
namespace nf4_cu {
#include "nf4/gpu/decode.cu"
}
}  // namespace

#include "nf4/decode.h"

namespace {
namespace host = optrush::nf4;
using optrush::fused::Type;

template <class T, bool packed>
void expect_equal(size_t count, bool twice, Type type) {
  SCOPED_TRACE(std::to_string(count) + (twice ? " scales in 8 bits" : " scales in fp32"));
  std::mt19937 generator(7);
  std::uniform_int_distribution<int> byte(0, 255);
  std::uniform_real_distribution<float> positive(0.5F, 2.0F);
  const size_t blocks = (count + 63) / 64, groups = (blocks + 255) / 256;
  alignas(16) std::vector<uint8_t> numbers((count + 1) / 2);
  std::vector<float> scales(blocks), means(groups), steps(groups);
  std::vector<int8_t> codes(blocks);
  for (auto& x : numbers) x = static_cast<uint8_t>(byte(generator));
  for (auto& x : scales) x = positive(generator);
  for (auto& x : means) x = positive(generator);
  for (auto& x : steps) x = positive(generator) / 512;
  for (auto& x : codes) x = static_cast<int8_t>(byte(generator) - 128);
  const float* wide = twice ? nullptr : scales.data();
  std::vector<T> expected(count), got(count);
  host::cpu::decode(
      {numbers.data(), wide, codes.data(), means.data(), steps.data(), static_cast<int64_t>(count)}, type,
      expected.data(), 0, static_cast<int64_t>(blocks));
  const nf4_cu::Encoded encoded{
      numbers.data(), wide,         reinterpret_cast<const signed char*>(codes.data()),
      means.data(),   steps.data(), static_cast<long long>(count)};
  optrush::testing::launch(static_cast<unsigned int>(count / 1024 + 1), {nf4_cu::kThreads, 1, 1},
                           [&] { nf4_cu::decode<T, packed>(encoded, got.data()); });
  EXPECT_EQ(std::memcmp(expected.data(), got.data(), count * sizeof(T)), 0);
}

TEST(Nf4Kernel, DecodesLikeCpu) {
  for (const bool twice : {false, true})
    for (const size_t count : {1, 16, 64, 100, 4096, 5003, 64 * 256 + 31}) {
      expect_equal<float, true>(count, twice, Type::fp32);
      expect_equal<float, false>(count, twice, Type::fp32);
      expect_equal<__nv_bfloat16, true>(count, twice, Type::bf16);
      expect_equal<__half, false>(count, twice, Type::fp16);
    }
}
}  // namespace
