// Rotary position embedding (arXiv:2104.09864) on a CPU: query and key heads of a token while its row of the
// tables is in the first cache. Rotating back is the same with the sines exchanged.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rotate.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernel_parts/lanes-inl.h"
#include "kernels.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
template <class T>
void rotate_tokens(const Rotate& p, int64_t begin, int64_t end) {
  using W = Wide<T>;
  const int64_t half = p.width / 2;
  for (int64_t token = begin; token < end; ++token) {
    const int64_t b = token / p.tokens, s = token % p.tokens;
    const int64_t row = b * p.table_batch + s * p.table_token;
    const auto* cos = static_cast<const W*>(p.cos) + row;
    const auto* sin = static_cast<const W*>(p.sin) + row;
    for (const Heads& part : p.parts) {
      for (int64_t head = 0; head < part.heads; ++head) {
        const auto* in =
            static_cast<const T*>(part.in) + b * part.in_batch + head * part.in_head + s * part.in_token;
        auto* out =
            static_cast<T*>(part.out) + b * part.out_batch + head * part.out_head + s * part.out_token;
        each_vector<W>(0, half, [&](auto d, int64_t i) HWY_ATTR {
          const auto first = load(d, in + i), second = load(d, in + half + i);
          const auto sine = load(d, sin + i), upper_sine = load(d, sin + half + i);
          const auto to_first = p.back ? upper_sine : hn::Neg(sine);
          const auto to_second = p.back ? hn::Neg(sine) : upper_sine;
          store(d, hn::MulAdd(first, load(d, cos + i), hn::Mul(second, to_first)), out + i, p.stream);
          store(d, hn::MulAdd(second, load(d, cos + half + i), hn::Mul(first, to_second)), out + half + i,
                p.stream);
        });
      }
    }
  }
  if (p.stream) hwy::FlushStream();
}

void rotate_each_type(const Rotate& p, int64_t begin, int64_t end) {
  with_type(p.type,
            [&](auto* t) HWY_ATTR { rotate_tokens<std::remove_pointer_t<decltype(t)>>(p, begin, end); });
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::fused {
HWY_EXPORT(rotate_each_type);
void cpu::rotate(const Rotate& p, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(rotate_each_type)(p, begin, end);
}
}  // namespace optrush::fused
#endif
