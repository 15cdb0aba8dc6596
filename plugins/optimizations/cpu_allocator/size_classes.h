#pragma once
#include <bit>
#include <cstddef>

namespace optrush::cpu_allocator {
/// Four size classes per power of two, so that a block wastes at most a fifth. The host puts a header of 64
/// bytes before the memory of a tensor, so requested sizes are often powers of two plus 64 bytes, and so are
/// the size classes.
struct SizeClass {
  static constexpr size_t kUnit = 64, kHeader = 64;
  static constexpr size_t kCount = 4 * 40;

  size_t index = 0;
  size_t bytes = 0;  ///< of a block of this class

  static constexpr SizeClass of(size_t bytes) {
    const size_t units = bytes <= kHeader + kUnit ? 1 : (bytes - kHeader + kUnit - 1) / kUnit;
    const size_t shift = units <= 8 ? 0 : static_cast<size_t>(std::bit_width(units - 1)) - 3;
    const size_t steps = ((units - 1) >> shift) + 1;  // 1 to 8 without a shift, 5 to 8 with one
    return {4 * shift + steps - 1, (steps << shift) * kUnit + kHeader};
  }
};
static_assert(SizeClass::of(1).bytes == 128 && SizeClass::of(1).index == 0);
static_assert(SizeClass::of(64 + 512).bytes == 64 + 512 && SizeClass::of(64 + 512).index == 7);
static_assert(SizeClass::of(64 + 513).bytes == 64 + 640 && SizeClass::of(64 + 513).index == 8);
static_assert(SizeClass::of(64 + (size_t{1} << 30)).bytes == 64 + (size_t{1} << 30));
static_assert(SizeClass::of(size_t{1} << 44).index < SizeClass::kCount);
}  // namespace optrush::cpu_allocator
