// Vectors of the arithmetic's type from and to memory of any type. Included once for each instruction set
// (Highway's foreach_target), hence no ordinary include guard.
#if defined(OPTRUSH_FUSED_LANES) == defined(HWY_TARGET_TOGGLE)
#ifdef OPTRUSH_FUSED_LANES
#undef OPTRUSH_FUSED_LANES
#else
#define OPTRUSH_FUSED_LANES
#endif
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "kernel_parts/type.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Bf16 = hwy::bfloat16_t;
using Fp16 = hwy::float16_t;

/// The type to compute in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class D, class T>
HWY_INLINE hn::Vec<D> load(D d, const T* from) {
  if constexpr (std::is_same_v<T, Bf16>) {
    const hn::Rebind<uint16_t, D> narrow;
    const hn::RebindToUnsigned<D> bits;
    const auto half = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from));
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, half)));
  } else if constexpr (std::is_same_v<T, Fp16>) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<Fp16, D>(), from));
  } else {
    return hn::LoadU(d, from);
  }
}

/// bf16, rounded to nearest even; Highway's own conversion cuts.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> to_bf16(D d, hn::Vec<D> value) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 16) {
    if (kRoundsToBf16) {
      __m256i half;
      asm("vcvtneps2bf16 %1, %0" : "=v"(half) : "v"(value.raw));
      return hn::Vec<hn::Rebind<uint16_t, D>>{half};
    }
  }
#endif
  const hn::RebindToUnsigned<D> u;
  const auto bits = hn::BitCast(u, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7FFF)));
  const auto nan = hn::RebindMask(u, hn::IsNaN(value));
  (void)d;
  return hn::TruncateTo(hn::Rebind<uint16_t, D>(),
                        hn::ShiftRight<16>(hn::IfThenElse(nan, hn::Set(u, 0x7FC00000), rounded)));
}

template <class D, class V, class T>
HWY_INLINE void put(D d, V value, T* to, bool stream) {
  if (stream && hn::MaxLanes(d) > 1)
    hn::Stream(value, d, to);
  else
    hn::StoreU(value, d, to);
}

template <class D, class T>
HWY_INLINE void store(D d, hn::Vec<D> value, T* to, bool stream) {
  if constexpr (std::is_same_v<T, Bf16>) {
    put(hn::Rebind<uint16_t, D>(), to_bf16(d, value), reinterpret_cast<uint16_t*>(to), stream);
  } else if constexpr (std::is_same_v<T, Fp16>) {
    const hn::Rebind<Fp16, D> narrow;
    put(narrow, hn::DemoteTo(narrow, value), to, stream);
  } else {
    put(d, value, to, stream);
  }
}

/// The value that `store` leaves in memory of type T.
template <class T, class D>
HWY_INLINE hn::Vec<D> rounded(D d, hn::Vec<D> value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    const hn::RebindToUnsigned<D> u;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(u, to_bf16(d, value))));
  } else if constexpr (std::is_same_v<T, Fp16>) {
    return hn::PromoteTo(d, hn::DemoteTo(hn::Rebind<Fp16, D>(), value));
  } else {
    return value;
  }
}

/// body(tag, index) for whole vectors, then lane by lane for the rest.
template <class W, class Body>
HWY_INLINE void each_vector(int64_t begin, int64_t end, const Body& body) {
  const hn::ScalableTag<W> d;
  const hn::CappedTag<W, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) body(d, i);
  for (; i < end; ++i) body(one, i);
}

/// Sum of term(tag, index). Two accumulators, so that consecutive additions do not depend on each other.
template <class W, class Term>
HWY_INLINE W sum_of(int64_t count, const Term& term) {
  const hn::ScalableTag<W> d;
  const hn::CappedTag<W, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d), odd = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::Add(even, term(d, i));
    odd = hn::Add(odd, term(d, i + lanes));
  }
  for (; i + lanes <= count; i += lanes) even = hn::Add(even, term(d, i));
  W sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < count; ++i) sum += hn::GetLane(term(one, i));
  return sum;
}

/// Calls `run` with a null pointer of the type that `type` names.
template <class Run>
HWY_INLINE void with_type(Type type, const Run& run) {
  switch (type) {
    case Type::fp32:
      return run(static_cast<float*>(nullptr));
    case Type::fp64:
      return run(static_cast<double*>(nullptr));
    case Type::bf16:
      return run(static_cast<Bf16*>(nullptr));
    case Type::fp16:
      return run(static_cast<Fp16*>(nullptr));
  }
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();
#endif
