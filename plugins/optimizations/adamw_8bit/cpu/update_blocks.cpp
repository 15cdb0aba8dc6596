// AdamW with moments in 8 bits on a CPU. A block of both moments is decoded, updated and encoded again while
// it is in the first cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/update_blocks.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "code.h"
#include "hwy/highway.h"
#include "kernel_parts/lanes-inl.h"
#include "pieces.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::adamw_8bit {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace lanes = optrush::fused::HWY_NAMESPACE;

/// A block's moments, decoded.
struct Wide {
  alignas(64) float first[kBlock], second[kBlock];
};

template <class D>
HWY_INLINE hn::Vec<D> decode(D d, const Code& code, const uint8_t* codes) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> bytes;
  return hn::GatherIndex(d, code.values.data(), hn::PromoteTo(di, hn::LoadU(bytes, codes)));
}

/// Ranks of magnitudes, as encode() of code.h finds them.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> ranks_of(D d, const Code& code, hn::Vec<D> magnitude) {
  const hn::RebindToSigned<D> di;
  const auto upper = hn::ShiftRight<16>(hn::BitCast(di, magnitude));
  const auto bucket =
      hn::Min(hn::Max(hn::Sub(upper, hn::Set(di, kFirstBucket)), hn::Zero(di)), hn::Set(di, kBuckets - 1));
  const auto at = hn::ShiftLeft<1>(bucket);  // a bucket is two words
  const auto* words = reinterpret_cast<const float*>(code.buckets.data());
  const auto border = hn::GatherIndex(d, words, at);
  const auto low = hn::GatherIndex(di, reinterpret_cast<const int32_t*>(words) + 1, at);
  return hn::Add(low, hn::IfThenElseZero(hn::RebindMask(di, hn::Gt(magnitude, border)), hn::Set(di, 1)));
}

template <class D>
HWY_INLINE void put_codes(D, hn::Vec<hn::RebindToSigned<D>> codes, uint8_t* to) {
  const hn::Rebind<uint8_t, D> bytes;
  hn::StoreU(hn::DemoteTo(bytes, codes), bytes, to);
}

/// The largest magnitude, or a NaN. Magnitudes are compared as integers, because a maximum of floating-point
/// numbers may drop a NaN.
HWY_INLINE float most_of(int64_t count, const float* numbers) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto most = hn::Zero(di);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    most = hn::Max(most, hn::BitCast(di, hn::Abs(hn::LoadU(d, numbers + i))));
  int32_t all = hn::GetLane(hn::MaxOfLanes(di, most));
  for (; i < count; ++i) all = std::max(all, std::bit_cast<int32_t>(std::abs(numbers[i])));
  return std::bit_cast<float>(all);
}

/// Stores number `i` of a block in bf16 with stochastic rounding. Random bits are added to the low bits that
/// bf16 cuts off, so the probability of rounding up equals the distance from the lower neighbour.
template <class D>
HWY_INLINE void store_stochastically(D /*of the value*/, hn::Vec<D> value, lanes::Bf16* to, uint32_t seed,
                                     int64_t i) {
  const hn::RebindToUnsigned<D> u;
  const hn::Rebind<uint16_t, D> narrow;
  auto bits = hn::Add(hn::Iota(u, static_cast<uint32_t>(i)), hn::Set(u, seed));
  bits = hn::Mul(hn::Xor(bits, hn::ShiftRight<16>(bits)), hn::Set(u, 0x85EBCA6BU));
  bits = hn::Mul(hn::Xor(bits, hn::ShiftRight<13>(bits)), hn::Set(u, 0xC2B2AE35U));
  bits = hn::And(hn::Xor(bits, hn::ShiftRight<16>(bits)), hn::Set(u, 0xFFFFU));
  const auto carried = hn::Add(hn::BitCast(u, value), bits);
  const auto nan = hn::RebindMask(u, hn::IsNaN(value));
  const auto kept = hn::IfThenElse(nan, hn::Set(u, 0x7FC00000U), carried);
  hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(kept)), narrow, reinterpret_cast<uint16_t*>(to));
}

template <class G, class W>
void update_block(const Piece& p, const Factors& f, int64_t block) {
  const int64_t begin = block * kBlock, count = std::min(kBlock, p.count - begin);
  const auto* gradients = static_cast<const G*>(p.gradient) + begin;
  auto* data = static_cast<W*>(p.data) + begin;
  const uint32_t seed = block_seed(f.rounding_seed, block);
  const float first_scale = p.first_scales[block], second_scale = p.second_scales[block];
  const Code &with_sign = signed_code(), &without = unsigned_code();
  Wide wide;
  lanes::each_vector<float>(0, count, [&](auto d, int64_t i) HWY_ATTR {
    const auto g = lanes::load(d, gradients + i);
    auto first = hn::Mul(decode(d, with_sign, p.first + begin + i), hn::Set(d, first_scale));
    auto second = hn::Mul(decode(d, without, p.second + begin + i), hn::Set(d, second_scale));
    first = hn::MulAdd(hn::Set(d, 1 - f.beta1), hn::Sub(g, first), first);
    second = hn::MulAdd(hn::Set(d, 1 - f.beta2), hn::Mul(g, g), hn::Mul(hn::Set(d, f.beta2), second));
    const auto below = hn::MulAdd(hn::Sqrt(second), hn::Set(d, f.root), hn::Set(d, f.eps));
    const auto kept = hn::Mul(lanes::load(d, data + i), hn::Set(d, f.keep));
    const auto updated = hn::NegMulAdd(hn::Set(d, f.step_size), hn::Div(first, below), kept);
    if constexpr (std::is_same_v<W, lanes::Bf16>)
      store_stochastically(d, updated, data + i, seed, i);
    else
      hn::StoreU(updated, d, data + i);
    hn::StoreU(first, d, wide.first + i);
    hn::StoreU(second, d, wide.second + i);
  });
  const float first_most = most_of(count, wide.first), second_most = most_of(count, wide.second);
  p.first_scales[block] = first_most;
  p.second_scales[block] = second_most;
  const float first_inverse = first_most > 0 ? 1 / first_most : 0,
              second_inverse = second_most > 0 ? 1 / second_most : 0;
  lanes::each_vector<float>(0, count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const auto one = hn::Set(di, 1);
    const auto first = hn::Mul(hn::LoadU(d, wide.first + i), hn::Set(d, first_inverse));
    const auto rank = ranks_of(d, with_sign, hn::Abs(first));
    // -1 is missing.
    const auto negative = hn::Neg(hn::Min(rank, hn::Set(di, with_sign.highest - 1)));
    const auto code = hn::IfThenElse(hn::RebindMask(di, hn::Lt(first, hn::Zero(d))), negative, rank);
    put_codes(d, hn::Add(code, hn::Set(di, with_sign.zero)), p.first + begin + i);
    const auto second = hn::Mul(hn::LoadU(d, wide.second + i), hn::Set(d, second_inverse));
    const auto lowest = hn::IfThenElseZero(hn::RebindMask(di, hn::Gt(second, hn::Zero(d))), one);
    put_codes(d, hn::Max(ranks_of(d, without, second), lowest), p.second + begin + i);
  });
}

template <class W>
void update_blocks_into(const Piece& p, Types types, const Factors& f, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block)
    if (types.gradient == Type::bf16)
      update_block<lanes::Bf16, W>(p, f, block);
    else
      update_block<float, W>(p, f, block);
}

void update_blocks_each_type(const Piece& p, Types types, const Factors& f, int64_t begin, int64_t end) {
  if (types.data == Type::bf16)
    update_blocks_into<lanes::Bf16>(p, types, f, begin, end);
  else
    update_blocks_into<float>(p, types, f, begin, end);
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::adamw_8bit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::adamw_8bit {
HWY_EXPORT(update_blocks_each_type);
void cpu::update(const Piece& p, Types types, const Factors& f, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(update_blocks_each_type)(p, types, f, begin, end);
}
}  // namespace optrush::adamw_8bit
#endif
