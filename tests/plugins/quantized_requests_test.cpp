// What the GPU kernels of numbers in 8 and 4 bits and of optimizers ask of memory. This file is compiled with
// -fsanitize=thread (support/memory_requests.h).
#include <random>

#include "adamw_8bit/code.h"
#include "kernel_requests.h"

namespace {
namespace rounded_mlp {
#include "fused_kernels/gpu/rounded_glu.cu"
}
namespace rounded_norms {
#include "fused_kernels/gpu/rounded_norm.cu"
}
namespace eight_bits {
#include "float8/gpu/quantize.cu"
}
namespace groups {
#include "float8/gpu/quantize_groups.cu"
}
namespace moments {
#include "adamw_8bit/gpu/update.cu"
}
namespace masters {
#include "bf16_weights/gpu/update.cu"
}
namespace four_bits {
#include "nf4/gpu/decode.cu"
}

using optrush::testing::expect_requests;
using optrush::testing::Memory;
using optrush::testing::NamedMemory;
using optrush::testing::requests_of;
using Bf16 = __nv_bfloat16;

/// Rows and columns of two blocks.
constexpr int kMatrixRows = 256, kMatrixColumns = 256;
constexpr unsigned int blocks_of(int tile_rows) {
  return static_cast<unsigned int>(kMatrixRows / tile_rows * (kMatrixColumns / eight_bits::kTileColumns));
}

TEST(QuantizedRequests, GatedUnitsIn8Bits) {
  constexpr size_t kCount = kMatrixRows * kMatrixColumns;
  Memory<Bf16> gate(kCount), up(kCount), of_out(kCount);
  Memory<unsigned char> values(2 * kCount), transposed(2 * kCount);
  Memory<float> past(16), seen(rounded_mlp::kLargestParts), scale(1);
  const auto place = [&](long long all_columns) {
    return rounded_mlp::Rounded{past.data(), seen.data(), values.data(),  transposed.data(), scale.data(),
                                16,          kMatrixRows, kMatrixColumns, all_columns};
  };
  const std::vector<NamedMemory> memory = {gate.named("gate"),
                                           up.named("up"),
                                           of_out.named("gradient of out"),
                                           values.named("values"),
                                           transposed.named("transposed"),
                                           past.named("past"),
                                           seen.named("seen"),
                                           scale.named("scale")};
  expect_requests(requests_of(blocks_of(rounded_mlp::kForwardRows), {256, 1, 1}, memory,
                              [&] {
                                rounded_mlp::rounded_glu_forward<Bf16, 8, false, 3, true>(
                                    gate.data(), up.data(), place(kMatrixColumns));
                              }),
                  R"(
atomic seen: 4 requests, 1 sectors, 1 lines
read gate: 256 requests, 16 sectors, 4 lines
read past: 4 requests, 2 sectors, 1 lines
read up: 256 requests, 16 sectors, 4 lines
write scale: 1 requests, 1 sectors, 1 lines
write transposed: 512 requests, 4 sectors, 1 lines
write values: 256 requests, 8 sectors, 2 lines
shared read: 1024 requests, 1 wavefronts
shared write: 2112 requests, 1 wavefronts
)");
  expect_requests(requests_of(blocks_of(rounded_mlp::kBackwardRows), {256, 1, 1}, memory,
                              [&] {
                                rounded_mlp::rounded_glu_backward<Bf16, 8, false, 2, true>(
                                    gate.data(), up.data(), of_out.data(), place(2 * kMatrixColumns));
                              }),
                  R"(
atomic seen: 8 requests, 1 sectors, 1 lines
read gate: 256 requests, 16 sectors, 4 lines
read gradient of out: 256 requests, 16 sectors, 4 lines
read past: 8 requests, 2 sectors, 1 lines
read up: 256 requests, 16 sectors, 4 lines
write scale: 1 requests, 1 sectors, 1 lines
write transposed: 1024 requests, 4 sectors, 2 instead of 1 lines
write values: 512 requests, 8 sectors, 2 lines
shared read: 2048 requests, 1 wavefronts
shared write: 4224 requests, 1 wavefronts
)");
}

template <class T, int N>
void expect_quantize(const std::string& table) {
  constexpr size_t kCount = kMatrixRows * kMatrixColumns;
  Memory<T> x(kCount);
  Memory<unsigned char> values(kCount), transposed(kCount);
  Memory<float> parts(16), seen(eight_bits::kLargestParts), scale(1);
  expect_requests(requests_of(blocks_of(eight_bits::kTileRows), {256, 1, 1},
                              {x.named("x"), values.named("values"), transposed.named("transposed"),
                               parts.named("parts"), seen.named("seen"), scale.named("scale")},
                              [&] {
                                eight_bits::quantize<T, N, 3, true>(
                                    x.data(), parts.data(), 16, 1, seen.data(), values.data(),
                                    transposed.data(), scale.data(), kMatrixRows, kMatrixColumns,
                                    kMatrixColumns);
                              }),
                  table);
}

TEST(QuantizedRequests, NormsIn8Bits) {
  constexpr int kRows = 64, kColumns = 512, kTileRows = 32;
  constexpr size_t kCount = kRows * kColumns;
  Memory<Bf16> x(kCount), delta(kCount), sum(kCount);
  Memory<unsigned char> values(kCount), transposed(kCount);
  Memory<float> weight(kColumns), rstd(kRows), past(16), seen(rounded_norms::kLargestParts), scale(1);
  const rounded_norms::Rounded place{past.data(), seen.data(), values.data(), transposed.data(), scale.data(),
                                     16,          kRows,       kColumns,      kColumns};
  expect_requests(requests_of(kRows / kTileRows, {32, 1, 1},
                              {x.named("x"), delta.named("delta"), sum.named("sum"), weight.named("weight"),
                               rstd.named("rstd"), values.named("values"), transposed.named("transposed"),
                               past.named("past"), seen.named("seen"), scale.named("scale")},
                              [&] {
                                rounded_norms::rounded_norm<Bf16, Bf16, 8, 2, 32, true, kTileRows, true>(
                                    x.data(), delta.data(), weight.data(), sum.data(), rstd.data(), 1e-5,
                                    place);
                              }),
                  R"(
atomic seen: 2 requests, 1 sectors, 1 lines
read delta: 128 requests, 16 sectors, 4 lines
read past: 2 requests, 2 sectors, 1 lines
read weight: 256 requests, 32 instead of 16 sectors, 8 instead of 4 lines
read x: 128 requests, 16 sectors, 4 lines
write rstd: 64 requests, 1 sectors, 1 lines
write scale: 1 requests, 1 sectors, 1 lines
write sum: 128 requests, 16 sectors, 4 lines
write transposed: 256 requests, 4 sectors, 4 instead of 1 lines
write values: 128 requests, 8 sectors, 2 lines
shared read: 324 requests, 1 wavefronts
shared write: 324 requests, 1.79 instead of 1 wavefronts
)");
}

TEST(QuantizedRequests, QuantizeAndTransposeBf16) {
  expect_quantize<Bf16, 8>(R"(
atomic seen: 4 requests, 1 sectors, 1 lines
read parts: 4 requests, 2 sectors, 1 lines
read x: 256 requests, 16 sectors, 4 lines
write scale: 1 requests, 1 sectors, 1 lines
write transposed: 512 requests, 4 sectors, 1 lines
write values: 256 requests, 8 sectors, 2 lines
shared read: 1024 requests, 1 wavefronts
shared write: 2112 requests, 1 wavefronts
)");
}

TEST(QuantizedRequests, QuantizeAndTransposeFp32) {
  expect_quantize<float, 4>(R"(
atomic seen: 4 requests, 1 sectors, 1 lines
read parts: 4 requests, 2 sectors, 1 lines
read x: 512 requests, 16 sectors, 4 lines
write scale: 1 requests, 1 sectors, 1 lines
write transposed: 512 requests, 4 sectors, 1 lines
write values: 512 requests, 4 sectors, 1 lines
shared read: 1024 requests, 1 wavefronts
shared write: 2112 requests, 1 wavefronts
)");
}

TEST(QuantizedRequests, Transpose) {
  constexpr size_t kCount = kMatrixRows * kMatrixColumns;
  Memory<unsigned char> values(kCount), transposed(kCount);
  expect_requests(
      requests_of(
          blocks_of(eight_bits::kTileRows), {256, 1, 1},
          {values.named("values"), transposed.named("transposed")},
          [&] { eight_bits::transpose(values.data(), transposed.data(), kMatrixRows, kMatrixColumns); }),
      R"(
read values: 256 requests, 8 sectors, 2 lines
write transposed: 512 requests, 4 sectors, 1 lines
shared read: 512 requests, 1 wavefronts
shared write: 2048 requests, 1 wavefronts
)");
}

TEST(QuantizedRequests, QuantizeGroups) {
  constexpr size_t kCount = kMatrixRows * kMatrixColumns;
  Memory<Bf16> x(kCount);
  Memory<unsigned char> values(kCount), transposed(kCount);
  Memory<float> scales(kCount / 128), turned_scales(kCount / 128);
  expect_requests(requests_of(4, {256, 1, 1},
                              {x.named("x"), values.named("values"), transposed.named("transposed"),
                               scales.named("scales"), turned_scales.named("turned scales")},
                              [&] {
                                groups::quantize_groups<Bf16, 8, false, true>(
                                    x.data(), values.data(), scales.data(), transposed.data(),
                                    turned_scales.data(), kMatrixRows, kMatrixColumns, kMatrixColumns, 0);
                              }),
                  R"(
read x: 512 requests, 16 sectors, 4 lines
write scales: 16 requests, 4 sectors, 1 lines
write transposed: 512 requests, 4 sectors, 1 lines
write turned scales: 16 requests, 4 sectors, 1 lines
write values: 256 requests, 8 sectors, 2 lines
shared atomic: 512 requests, 1.5 instead of 1 wavefronts
shared read: 1072 requests, 1.04 instead of 1 wavefronts
shared write: 2080 requests, 1 wavefronts
)");
}

/// Random codes and gradients, because they choose what is read from the tables.
TEST(QuantizedRequests, AdamW8bit) {
  constexpr size_t kCount = 16384;
  Memory<float> gradient(kCount), data(kCount), first_scales(kCount / 256), second_scales(kCount / 256),
      steps(1);
  Memory<unsigned char> first(kCount), second(kCount);
  Memory<moments::Tables> tables(1);
  std::mt19937 generator(7);
  for (size_t i = 0; i < kCount; ++i) {
    float sum = -6;  // of twelve uniform numbers: nearly a normal one
    for (int draw = 0; draw < 12; ++draw) sum += static_cast<float>(generator()) / 4294967296.0F;
    gradient.data()[i] = sum;
    first.data()[i] = static_cast<unsigned char>(generator() % 256);
    second.data()[i] = static_cast<unsigned char>(generator() % 256);
  }
  for (size_t i = 0; i < kCount / 256; ++i) first_scales.data()[i] = second_scales.data()[i] = 1;
  namespace host = optrush::adamw_8bit;
  for (const auto& [to, from] : {std::pair(&tables.data()->first, &host::signed_code()),
                                 {&tables.data()->second, &host::unsigned_code()}}) {
    std::ranges::copy(from->values, to->values);
    for (size_t i = 0; i < from->buckets.size(); ++i) {
      to->lows[i] = static_cast<unsigned char>(from->buckets[i].low);
      to->borders[from->buckets[i].low] = from->buckets[i].border;
    }
  }
  moments::Pieces pieces{};
  pieces.count = 1;
  pieces.pieces[0] = {gradient.data(),
                      data.data(),
                      first.data(),
                      second.data(),
                      first_scales.data(),
                      second_scales.data(),
                      kCount,
                      0,
                      0};
  const moments::Factors factors{1, 0, 1};
  expect_requests(requests_of(1, {256, 1, 1},
                              {gradient.named("gradient"), data.named("data"), first.named("codes"),
                               second.named("codes"), first_scales.named("scales"),
                               second_scales.named("scales"), tables.named("tables")},
                              [&] {
                                moments::update<float, float, true>(pieces, &factors, nullptr, tables.data(),
                                                                    0.9F, 0.95F, 1e-8F, steps.data(), 5);
                              }),
                  R"(
read codes: 256 requests, 4 sectors, 1 lines
read data: 128 requests, 16 sectors, 4 lines
read gradient: 128 requests, 16 sectors, 4 lines
read scales: 128 requests, 1 sectors, 1 lines
read tables: 20 requests, 15.7 sectors, 3.95 lines
write codes: 256 requests, 4 sectors, 1 lines
write data: 128 requests, 16 sectors, 4 lines
write scales: 128 requests, 1 sectors, 1 lines
shared read: 3072 requests, 3.01 instead of 1 wavefronts
shared write: 20 requests, 3.95 wavefronts
)");
}

TEST(QuantizedRequests, AdamWWithMasterWeights) {
  constexpr size_t kCount = 8192;
  Memory<float> master(kCount), first(kCount), second(kCount);
  Memory<Bf16> gradient(kCount), weight(kCount);
  masters::Pieces pieces{};
  pieces.count = 1;
  pieces.pieces[0] = {
      gradient.data(), master.data(), first.data(), second.data(), weight.data(), kCount, 0, 0};
  masters::OfShard shard{{1, 0, 1}, 0};
  expect_requests(
      requests_of(1, {256, 1, 1},
                  {gradient.named("gradient"), master.named("master"), first.named("moments"),
                   second.named("moments"), weight.named("weight")},
                  [&] { masters::update<Bf16, true, true>(pieces, &shard, nullptr, 0.9F, 0.95F, 1e-8F); }),
      R"(
read gradient: 64 requests, 8 sectors, 2 lines
read master: 64 requests, 16 sectors, 4 lines
read moments: 128 requests, 16 sectors, 4 lines
write master: 64 requests, 16 sectors, 4 lines
write moments: 128 requests, 16 sectors, 4 lines
write weight: 64 requests, 8 sectors, 2 lines
shared read: 64 requests, 1 wavefronts
shared write: 8 requests, 1 wavefronts
)");
}

TEST(QuantizedRequests, DecodingOf4Bits) {
  constexpr size_t kCount = 4096;
  Memory<unsigned char> numbers(kCount / 2);
  Memory<float> scales(kCount / 64);
  Memory<Bf16> out(kCount);
  const four_bits::Encoded from{numbers.data(), scales.data(), nullptr, nullptr, nullptr, kCount};
  expect_requests(
      requests_of(1, {256, 1, 1}, {numbers.named("numbers"), scales.named("scales"), out.named("out")},
                  [&] { four_bits::decode<Bf16, true>(from, out.data()); }),
      R"(
read numbers: 8 requests, 4 sectors, 1 lines
read scales: 8 requests, 1 sectors, 1 lines
write out: 8 requests, 16 sectors, 4 lines
shared read: 64 requests, 1 wavefronts
shared write: 1 requests, 1 wavefronts
)");
}
}  // namespace
