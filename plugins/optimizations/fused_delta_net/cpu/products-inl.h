// Products of small matrices in the first caches. Included once for each instruction set (Highway's
// foreach_target), hence no ordinary include guard.
#if defined(OPTRUSH_SMALL_PRODUCTS) == defined(HWY_TARGET_TOGGLE)
#ifdef OPTRUSH_SMALL_PRODUCTS
#undef OPTRUSH_SMALL_PRODUCTS
#else
#define OPTRUSH_SMALL_PRODUCTS
#endif
#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rows in scratch memory are padded to this many elements, so a product needs no remainder of a vector.
template <class W>
inline constexpr int64_t kPad = 64 / static_cast<int64_t>(sizeof(W));
template <class W>
constexpr int64_t padded(int64_t width) {
  return (width + kPad<W> - 1) / kPad<W> * kPad<W>;
}
template <class W>
using Tag = hn::CappedTag<W, static_cast<size_t>(kPad<W>)>;

/// A matrix by its strides: (i, k) is at data[i * row + k * column].
template <class W>
struct Strided {
  const W* data;
  int64_t row, column = 1;
  Strided transposed() const { return {data, column, row}; }
};
/// Elements of the left factor that are not 0: all, those with k <= i, or those with k >= i.
enum class Band : uint8_t { full, lower, upper };
enum class Into : uint8_t { set, add, subtract };

template <int kRows, int kVectors, Into kInto, class W>
HWY_INLINE void product_tile(Strided<W> a, const W* b, int64_t ld_b, W* out, int64_t ld_out, int64_t first,
                             int64_t last) {
  const Tag<W> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = kInto == Into::set ? hn::Zero(d) : hn::LoadU(d, out + r * ld_out + v * lanes);
  for (int64_t k = first; k < last; ++k) {
    hn::Vec<decltype(d)> right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + k * ld_b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const auto left = hn::Set(d, a.data[r * a.row + k * a.column]);
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = kInto == Into::subtract ? hn::NegMulAdd(left, right[v], sum[r][v])
                                            : hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, out + r * ld_out + v * lanes);
}

template <int kRows, Into kInto, class W>
HWY_INLINE void product_rows(Strided<W> a, const W* b, int64_t ld_b, W* out, int64_t ld_out, int64_t width,
                             int64_t first, int64_t last) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag<W>()));
  int64_t n = 0;
  for (; n + 2 * lanes <= width; n += 2 * lanes)
    product_tile<kRows, 2, kInto>(a, b + n, ld_b, out + n, ld_out, first, last);
  for (; n < width; n += lanes) product_tile<kRows, 1, kInto>(a, b + n, ld_b, out + n, ld_out, first, last);
}

/// out (rows, width) = A B, or += or -=, for A (rows, depth) and B (depth, width). `width` is padded, and the
/// padding of `out` is written.
template <Into kInto, class W>
HWY_NOINLINE void product(Strided<W> a, const W* b, int64_t ld_b, W* out, int64_t ld_out, int64_t rows,
                          int64_t depth, int64_t width, Band band = Band::full) {
  constexpr int kRows = 6;
  for (int64_t i = 0; i < rows; i += kRows) {
    const int64_t count = std::min<int64_t>(kRows, rows - i);
    const int64_t first = band == Band::upper ? i : 0;
    const int64_t last = band == Band::lower ? std::min(depth, i + count) : depth;
    const Strided<W> from{a.data + i * a.row, a.row, a.column};
    W* const to = out + i * ld_out;
    const auto run = [&]<int kCount>() HWY_ATTR {
      product_rows<kCount, kInto>(from, b, ld_b, to, ld_out, width, first, last);
    };
    switch (count) {
      case 6:
        run.template operator()<6>();
        break;
      case 5:
        run.template operator()<5>();
        break;
      case 4:
        run.template operator()<4>();
        break;
      case 3:
        run.template operator()<3>();
        break;
      case 2:
        run.template operator()<2>();
        break;
      default:
        run.template operator()<1>();
    }
  }
}

/// y += factor x, over padded rows.
template <class W>
HWY_INLINE void add_scaled(W factor, const W* x, W* y, int64_t width) {
  const Tag<W> d;
  const auto scale = hn::Set(d, factor);
  for (int64_t i = 0; i < width; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::MulAdd(scale, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
}
template <class W>
HWY_INLINE void scaled_to(W factor, const W* x, W* y, int64_t width) {
  const Tag<W> d;
  const auto scale = hn::Set(d, factor);
  for (int64_t i = 0; i < width; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::Mul(scale, hn::LoadU(d, x + i)), d, y + i);
}
template <class W>
HWY_INLINE W dot(const W* x, const W* y, int64_t width) {
  const Tag<W> d;
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < width; i += static_cast<int64_t>(hn::Lanes(d)))
    sum = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// to (columns, rows) = transposed (rows, columns); the padding of `to` becomes 0.
template <class W>
HWY_INLINE void transpose(const W* from, int64_t ld_from, W* to, int64_t ld_to, int64_t rows,
                          int64_t columns) {
  constexpr int64_t kBlock = 16;
  for (int64_t j0 = 0; j0 < columns; j0 += kBlock)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = j0; j < std::min(columns, j0 + kBlock); ++j) to[j * ld_to + i] = from[i * ld_from + j];
  for (int64_t j = 0; j < columns; ++j) std::fill(to + j * ld_to + rows, to + (j + 1) * ld_to, W(0));
}

/// X = (I + A)^-1 X for A (rows, rows), which is strictly lower triangular.
template <class W>
HWY_INLINE void solve(const W* a, int64_t ld_a, W* x, int64_t ld_x, int64_t rows) {
  constexpr int64_t kBlock = 12;
  for (int64_t s = 0; s < rows; s += kBlock) {
    const int64_t e = std::min(rows, s + kBlock);
    if (s > 0) product<Into::subtract, W>({a + s * ld_a, ld_a}, x, ld_x, x + s * ld_x, ld_x, e - s, s, ld_x);
    for (int64_t i = s + 1; i < e; ++i)
      for (int64_t j = s; j < i; ++j) add_scaled(-a[i * ld_a + j], x + j * ld_x, x + i * ld_x, ld_x);
  }
}
/// X = (I + A)^-T X.
template <class W>
HWY_INLINE void solve_transposed(const W* a, int64_t ld_a, W* x, int64_t ld_x, int64_t rows) {
  constexpr int64_t kBlock = 12;
  for (int64_t s = (rows - 1) / kBlock * kBlock; s >= 0; s -= kBlock) {
    const int64_t e = std::min(rows, s + kBlock);
    if (e < rows)
      product<Into::subtract, W>({a + e * ld_a + s, 1, ld_a}, x + e * ld_x, ld_x, x + s * ld_x, ld_x, e - s,
                                 rows - e, ld_x);
    for (int64_t i = e - 2; i >= s; --i)
      for (int64_t j = i + 1; j < e; ++j) add_scaled(-a[j * ld_a + i], x + j * ld_x, x + i * ld_x, ld_x);
  }
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();
#endif
