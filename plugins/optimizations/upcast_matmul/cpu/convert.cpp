// Blocks of matrices between 16 and 32 bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/convert.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include "cpu/convert.h"
#include "hwy/highway.h"
#include "kernel_parts/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::upcast_matmul {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::Narrow;
using fused::HWY_NAMESPACE::each_vector;
using fused::HWY_NAMESPACE::load;
using fused::HWY_NAMESPACE::store;
using fused::HWY_NAMESPACE::with_type;

void widen(const Narrow& from, int64_t rows, int64_t columns, float* to) {
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

void narrow(const float* from, int64_t rows, int64_t columns, float alpha, float beta, const Narrow& to) {
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
}  // namespace optrush::upcast_matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::upcast_matmul {
HWY_EXPORT(widen);
HWY_EXPORT(narrow);
void cpu::widened(const Narrow& from, int64_t rows, int64_t columns, float* to) {
  HWY_DYNAMIC_DISPATCH(widen)(from, rows, columns, to);
}
void cpu::narrowed(const float* from, int64_t rows, int64_t columns, float alpha, float beta,
                   const Narrow& to) {
  HWY_DYNAMIC_DISPATCH(narrow)(from, rows, columns, alpha, beta, to);
}
}  // namespace optrush::upcast_matmul
#endif
