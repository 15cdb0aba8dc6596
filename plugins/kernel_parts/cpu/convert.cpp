// Blocks of matrices between 16 and 32 bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel_parts/cpu/convert.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include "hwy/highway.h"
#include "kernel_parts/cpu/convert.h"
#include "kernel_parts/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void widen(const NarrowRows& from, int64_t rows, int64_t columns, float* to) {
  with_type(from.type, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    if constexpr (sizeof(T) == 2)
      for (int64_t r = 0; r < rows; ++r) {
        const T* in = static_cast<const T*>(from.data) + r * from.row;
        float* out = to + r * columns;
        each_vector<float>(0, columns, [&](auto d, int64_t i) HWY_ATTR {
          store(d, load(d, in + i), out + i, /*stream=*/false);
        });
      }
  });
}

void narrow(const float* from, int64_t rows, int64_t columns, float alpha, float beta, const NarrowRows& to) {
  with_type(to.type, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    if constexpr (sizeof(T) == 2)
      for (int64_t r = 0; r < rows; ++r) {
        const float* in = from + r * columns;
        T* out = static_cast<T*>(to.data) + r * to.row;
        each_vector<float>(0, columns, [&](auto d, int64_t i) HWY_ATTR {
          auto value = hn::Mul(hn::Set(d, alpha), hn::LoadU(d, in + i));
          if (beta != 0) value = hn::MulAdd(hn::Set(d, beta), load(d, out + i), value);
          store(d, value, out + i, /*stream=*/false);
        });
      }
  });
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::fused {
HWY_EXPORT(widen);
HWY_EXPORT(narrow);
void widened(const NarrowRows& from, int64_t rows, int64_t columns, float* to) {
  HWY_DYNAMIC_DISPATCH(widen)(from, rows, columns, to);
}
void narrowed(const float* from, int64_t rows, int64_t columns, float alpha, float beta,
              const NarrowRows& to) {
  HWY_DYNAMIC_DISPATCH(narrow)(from, rows, columns, alpha, beta, to);
}
}  // namespace optrush::fused
#endif
