// Transposes and pairs of rows, by vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/layout.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include <algorithm>
#include <array>

#include "cpu/layout.h"
#include "hwy/highway.h"
#include "kernel_parts/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::flash {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::Rows;

#if HWY_TARGET == HWY_SCALAR
constexpr int64_t kSquare = 1;
HWY_INLINE void transpose_square(const uint8_t* in, int64_t, uint32_t* out, int64_t) {
  std::copy_n(in, 4, reinterpret_cast<uint8_t*>(out));
}
#else
constexpr int64_t kSquare = 4;
/// Four rows of four words.
HWY_INLINE void transpose_square(const uint8_t* in, int64_t in_row, uint32_t* out, int64_t out_row) {
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> pairs;
  const auto row = [&](int64_t r)
                       HWY_ATTR { return hn::LoadU(d, reinterpret_cast<const uint32_t*>(in + r * in_row)); };
  const auto a = row(0), b = row(1), c = row(2), e = row(3);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
             ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)),
             ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
             ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, out + out_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d, out + 2 * out_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d, out + 3 * out_row);
}
#endif

/// Row r begins at `in` + r `in_row` bytes.
void transpose_words(const uint8_t* in, int64_t in_row, int64_t rows, int64_t words, uint32_t* out,
                     int64_t out_row) {
  const int64_t whole_rows = rows / kSquare * kSquare, whole_words = words / kSquare * kSquare;
  // Rows of the result are written to their end, which fills whole lines of the cache.
  for (int64_t w = 0; w < whole_words; w += kSquare)
    for (int64_t r = 0; r < whole_rows; r += kSquare)
      transpose_square(in + r * in_row + w * 4, in_row, out + w * out_row + r, out_row);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t w = r < whole_rows ? whole_words : 0; w < words; ++w)
      std::copy_n(in + r * in_row + w * 4, 4, reinterpret_cast<uint8_t*>(out + w * out_row + r));
}

/// words[i] = low[i] in the lower half, high[i] in the upper half; zeros if there is no high row.
HWY_INLINE void interleave(const uint16_t* low, const uint16_t* high, int64_t count, uint32_t* words) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto word = hn::PromoteTo(d, hn::LoadU(half, low + i));
    if (high != nullptr) word = hn::Or(word, hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, high + i))));
    hn::StoreU(word, d, words + i);
  }
  for (; i < count; ++i) words[i] = low[i] | (high != nullptr ? static_cast<uint32_t>(high[i]) << 16 : 0U);
}

void pair_rows(const uint16_t* in, int64_t in_row, int64_t rows, int64_t columns, uint32_t* out,
               int64_t out_row) {
  for (int64_t r = 0; r < rows; r += 2)
    interleave(in + r * in_row, r + 1 < rows ? in + (r + 1) * in_row : nullptr, columns,
               out + r / 2 * out_row);
}

/// The halves of words in two rows.
void split(const uint32_t* words, int64_t count, uint16_t* low, uint16_t* high) {
  fused::HWY_NAMESPACE::each_vector<float>(0, count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> u;
    const hn::Rebind<uint16_t, decltype(d)> half;
    const auto word = hn::LoadU(u, words + i);
    hn::StoreU(hn::TruncateTo(half, word), half, low + i);
    hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(word)), half, high + i);
  });
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::flash
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::flash {
HWY_EXPORT(transpose_words);
HWY_EXPORT(pair_rows);
HWY_EXPORT(split);

namespace cpu {
namespace {
uint32_t* words_of(Second<c10::BFloat16> x) { return reinterpret_cast<uint32_t*>(x.data); }

template <class T>
void transpose_words_of(Rows<const T> in, int64_t rows, int64_t words, uint32_t* out, int64_t out_row) {
  HWY_DYNAMIC_DISPATCH(transpose_words)
  (reinterpret_cast<const uint8_t*>(in.data), in.row * static_cast<int64_t>(sizeof(T)), rows, words, out,
   out_row);
}
}  // namespace

void transposed(Rows<const float> in, int64_t rows, int64_t columns, Second<float> out) {
  transpose_words_of(in, rows, columns, reinterpret_cast<uint32_t*>(out.data), out.row);
}

void transposed(Rows<const c10::BFloat16> in, int64_t rows, int64_t columns, Second<c10::BFloat16> out) {
  transpose_words_of(in, rows, columns / 2, words_of(out), out.row);
}

void transposed(Rows<const float> in, int64_t rows, int64_t columns, Rows<float> out) {
  transpose_words_of(in, rows, columns, reinterpret_cast<uint32_t*>(out.data), out.row);
}

void transposed(Rows<const c10::BFloat16> in, int64_t rows, int64_t columns, Rows<c10::BFloat16> out) {
  constexpr int64_t kMost = 64;  // rows at once
  std::array<uint32_t, kMost * 4> words{};
  for (int64_t first = 0; first < rows; first += kMost) {
    const int64_t count = std::min(kMost, rows - first);
    for (int64_t c = 0; c < columns; c += 8) {
      const int64_t pairs = std::min<int64_t>(4, (columns - c) / 2);
      const Rows<const c10::BFloat16> part{in.at(first) + c, in.row};
      transpose_words_of(part, count, pairs, words.data(), kMost);
      for (int64_t pair = 0; pair < pairs; ++pair) {
        auto* low = reinterpret_cast<uint16_t*>(out.at(c + 2 * pair) + first);
        auto* high = reinterpret_cast<uint16_t*>(out.at(c + 2 * pair + 1) + first);
        HWY_DYNAMIC_DISPATCH(split)(words.data() + pair * kMost, count, low, high);
        if (first + count == rows && rows % 2 != 0) low[count] = high[count] = 0;
      }
    }
  }
}

void paired(Rows<const c10::BFloat16> in, int64_t rows, int64_t columns, Second<c10::BFloat16> out) {
  const auto* bits = reinterpret_cast<const uint16_t*>(in.data);
  HWY_DYNAMIC_DISPATCH(pair_rows)(bits, in.row, rows, columns, words_of(out), out.row);
}
}  // namespace cpu
}  // namespace optrush::flash
#endif
