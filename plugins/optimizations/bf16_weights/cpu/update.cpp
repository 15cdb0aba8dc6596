// AdamW with master weights on a CPU: each gradient, moment, master and weight passes through the registers
// once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/update.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include "hwy/highway.h"
#include "kernel_parts/lanes-inl.h"
#include "pieces.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::master_adamw {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace lanes = optrush::fused::HWY_NAMESPACE;

template <class G>
void update_range(const Piece& p, const Factors& f, int64_t begin, int64_t end) {
  const auto* gradients = static_cast<const G*>(p.gradient);
  auto* weights = static_cast<lanes::Bf16*>(p.weight);
  lanes::each_vector<float>(begin, end, [&](auto d, int64_t i) HWY_ATTR {
    const auto g = lanes::load(d, gradients + i);
    auto first = hn::LoadU(d, p.first + i), second = hn::LoadU(d, p.second + i);
    first = hn::MulAdd(hn::Set(d, 1 - f.beta1), hn::Sub(g, first), first);
    second = hn::MulAdd(hn::Set(d, 1 - f.beta2), hn::Mul(g, g), hn::Mul(hn::Set(d, f.beta2), second));
    const auto below = hn::MulAdd(hn::Sqrt(second), hn::Set(d, f.root), hn::Set(d, f.eps));
    const auto kept = hn::Mul(hn::LoadU(d, p.master + i), hn::Set(d, f.keep));
    const auto master = hn::NegMulAdd(hn::Set(d, f.step_size), hn::Div(first, below), kept);
    hn::StoreU(first, d, p.first + i);
    hn::StoreU(second, d, p.second + i);
    hn::StoreU(master, d, p.master + i);
    if (weights != nullptr) lanes::store(d, master, weights + i, /*stream=*/false);
  });
}

void update_each_type(const Piece& p, Type type, const Factors& f, int64_t begin, int64_t end) {
  if (type == Type::bf16)
    update_range<lanes::Bf16>(p, f, begin, end);
  else
    update_range<float>(p, f, begin, end);
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::master_adamw
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::master_adamw {
HWY_EXPORT(update_each_type);
void cpu::update(const Piece& p, Type type, const Factors& f, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(update_each_type)(p, type, f, begin, end);
}
}  // namespace optrush::master_adamw
#endif
