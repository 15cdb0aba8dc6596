// RMSNorm and residual + RMSNorm (arXiv:1910.07467) on a CPU: a row is read from memory once and stays in the
// first cache for the second look at it.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/norm.cpp"
// Vectors of 16 bytes, AVX2 and AVX-512 are enough: every instruction set is one more copy of this file.
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
/// The types of x, of delta (void: there is none) and of the result.
template <class S, class D, class O>
void forward_rows(const NormForward& p, int64_t begin, int64_t end) {
  using W = Wide<S>;
  constexpr bool kAdds = !std::is_void_v<D>;
  const auto* weight = static_cast<const W*>(p.weight);
  const int64_t width = p.width;
  for (int64_t row = begin; row < end; ++row) {
    const auto* x = static_cast<const S*>(p.x) + row * width;
    const auto* delta =
        static_cast<const std::conditional_t<kAdds, D, S>*>(p.delta) + (kAdds ? row * width : 0);
    auto* sum = static_cast<S*>(p.sum) + (kAdds ? row * width : 0);
    auto* out = static_cast<O*>(p.out) + row * width;
    // The second pass adds again: reading the streamed sum back would go to memory.
    const auto value = [&](auto d, int64_t i) HWY_ATTR {
      if constexpr (kAdds)
        return rounded<S>(d, hn::Add(load(d, x + i), load(d, delta + i)));
      else
        return load(d, x + i);
    };
    const W squares = sum_of<W>(width, [&](auto d, int64_t i) HWY_ATTR {
      const auto v = value(d, i);
      return hn::Mul(v, v);
    });
    const W rstd = 1 / std::sqrt(squares / static_cast<W>(width) + static_cast<W>(p.eps));
    static_cast<W*>(p.rstd)[row] = rstd;
    const bool more = row + 1 < end;
    each_vector<W>(0, width, [&](auto d, int64_t i) HWY_ATTR {
      if (more) {  // memory would idle during the second pass
        hwy::Prefetch(x + width + i);
        if constexpr (kAdds) hwy::Prefetch(delta + width + i);
      }
      const auto v = value(d, i);
      if constexpr (kAdds) store(d, v, sum + i, p.stream);
      store(d, hn::Mul(hn::Mul(v, hn::Set(d, rstd)), load(d, weight + i)), out + i, p.stream);
    });
  }
  if (p.stream) hwy::FlushStream();
}

/// Rows that are summed in the arithmetic's own type before they join the double sum: short enough that
/// rounding does not grow, long enough that the double sums cost nothing.
constexpr int64_t kRowsInASum = 32;

template <class S, class D, class O>
void backward_rows(const NormBackward& p, int64_t begin, int64_t end, double* weight_part) {
  using W = Wide<S>;
  constexpr bool kAdds = !std::is_void_v<D>;
  using Low = std::conditional_t<kAdds, D, S>;
  constexpr bool kLowers = kAdds && !std::is_same_v<S, D>;
  const auto* weight = static_cast<const W*>(p.weight);
  const int64_t width = p.width;
  std::vector<W> part(static_cast<size_t>(width), W(0));
  for (int64_t row = begin; row < end; ++row) {
    const auto* s = static_cast<const S*>(p.s) + row * width;
    const auto* g = static_cast<const O*>(p.out_gradient) + row * width;
    const auto* residual = static_cast<const S*>(p.sum_gradient) + (kAdds ? row * width : 0);
    auto* gradient = static_cast<S*>(p.gradient) + row * width;
    auto* lowered = static_cast<Low*>(p.delta_gradient) + (kLowers ? row * width : 0);
    const W rstd = static_cast<const W*>(p.rstd)[row];
    const W along = sum_of<W>(width, [&](auto d, int64_t i) HWY_ATTR {
      return hn::Mul(hn::Mul(load(d, g + i), load(d, weight + i)), load(d, s + i));
    });
    const W pull = -along * rstd * rstd * rstd / static_cast<W>(width);
    const bool more = row + 1 < end;
    each_vector<W>(0, width, [&](auto d, int64_t i) HWY_ATTR {
      if (more) {
        hwy::Prefetch(s + width + i);
        hwy::Prefetch(g + width + i);
        if constexpr (kAdds) hwy::Prefetch(residual + width + i);
      }
      const auto v = load(d, s + i), scaled = hn::Mul(load(d, g + i), hn::Set(d, rstd));
      auto result = hn::MulAdd(v, hn::Set(d, pull), hn::Mul(scaled, load(d, weight + i)));
      if constexpr (kAdds) result = hn::Add(result, load(d, residual + i));
      store(d, result, gradient + i, p.stream);
      if constexpr (kLowers) store(d, result, lowered + i, p.stream);
      hn::StoreU(hn::MulAdd(scaled, v, hn::LoadU(d, part.data() + i)), d, part.data() + i);
    });
    if ((row - begin) % kRowsInASum == kRowsInASum - 1 || row == end - 1) {
      for (int64_t i = 0; i < width; ++i) weight_part[i] += static_cast<double>(part[static_cast<size_t>(i)]);
      std::fill(part.begin(), part.end(), W(0));
    }
  }
  if (p.stream) hwy::FlushStream();
}

/// run(S, D, O) as null pointers. Beside x's own type, delta and the result may have a lower one than fp32.
template <class Parameters, class Run>
void with_types(const Parameters& p, bool adds, const Run& run) {
  with_type(p.x_type, [&](auto* s) HWY_ATTR {
    using S = std::remove_pointer_t<decltype(s)>;
    with_type(p.out_type, [&](auto* o) HWY_ATTR {
      using O = std::remove_pointer_t<decltype(o)>;
      if constexpr (std::is_same_v<S, O> || (std::is_same_v<S, float> && sizeof(O) == 2)) {
        if (!adds) return run(s, static_cast<void*>(nullptr), o);
        with_type(p.delta_type, [&](auto* delta) HWY_ATTR {
          using D = std::remove_pointer_t<decltype(delta)>;
          constexpr bool kLower =
              std::is_same_v<S, float> && sizeof(D) == 2 && (std::is_same_v<O, S> || std::is_same_v<O, D>);
          if constexpr (std::is_same_v<S, D> || kLower) run(s, delta, o);
        });
      }
    });
  });
}

void norm_forward_each_type(const NormForward& p, int64_t begin, int64_t end) {
  with_types(p, p.delta != nullptr, [&](auto* s, auto* delta, auto* o) HWY_ATTR {
    forward_rows<std::remove_pointer_t<decltype(s)>, std::remove_pointer_t<decltype(delta)>,
                 std::remove_pointer_t<decltype(o)>>(p, begin, end);
  });
}
void norm_backward_each_type(const NormBackward& p, int64_t begin, int64_t end, double* weight_part) {
  with_types(p, p.sum_gradient != nullptr, [&](auto* s, auto* delta, auto* o) HWY_ATTR {
    backward_rows<std::remove_pointer_t<decltype(s)>, std::remove_pointer_t<decltype(delta)>,
                  std::remove_pointer_t<decltype(o)>>(p, begin, end, weight_part);
  });
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::fused {
HWY_EXPORT(norm_forward_each_type);
HWY_EXPORT(norm_backward_each_type);
void cpu::norm_forward(const NormForward& p, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(norm_forward_each_type)(p, begin, end);
}
void cpu::norm_backward(const NormBackward& p, int64_t begin, int64_t end, double* weight_part) {
  HWY_DYNAMIC_DISPATCH(norm_backward_each_type)(p, begin, end, weight_part);
}
}  // namespace optrush::fused
#endif
