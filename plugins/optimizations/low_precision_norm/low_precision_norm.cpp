// Norms in low precision, like OLMo's option low_precision of LayerNorm: a norm reads and writes bf16 or
// fp16. The plain norm converts to fp32 first. The type is autocast's type under autocast, otherwise the type
// of the activations. One ATen kernel computes each norm; it sums in fp32, but x, weight and result are
// rounded. It moves half of the bytes, and the next linear needs no cast. It does not pay under a compiler,
// which also fuses the casts of the plain form into one pass.
#include <ATen/Functions.h>

#include "optrush/plugin.h"

namespace {
using namespace optrush;

at::ScalarType type_of_norm(const Tensor& x) {
  if (x.scalar_type() == at::kDouble) return at::kDouble;
  return autocast_type(x.device().type()).value_or(x.scalar_type());
}

Tensor value_of(const Module& module, size_t index, at::ScalarType type) {
  return index < module.params.size() ? module.params[index]->value().to(type) : Tensor();
}

Tensor norm(const Tensor& x, const Module& module, const NormArgs& args) {
  const auto type = type_of_norm(x);
  // Autocast would compute a norm in fp32.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const Tensor low = x.to(type), weight = value_of(module, 0, type);
  const auto optional = [](const Tensor& value) {
    return value.defined() ? std::optional<Tensor>(value) : std::nullopt;
  };
  if (args.kind == NormKind::rmsnorm) return at::rms_norm(low, {low.size(-1)}, optional(weight), args.eps);
  return at::layer_norm(low, {low.size(-1)}, optional(weight), optional(value_of(module, 1, type)), args.eps);
}

class LowPrecisionNorm final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    const Traits traits{.trace = Trace::aten, .capturable = true, .offers = {feature::fp64}};
    recipe.ops.norm.replace_each(
        [](const Module& module) -> Ops::Norm::Fn {
          return [&module](const Tensor& x, const NormArgs& args) { return norm(x, module, args); };
        },
        traits);
    recipe.ops.add_norm.replace_each(
        [](const Module& module) -> Ops::AddNorm::Fn {
          return
              [&module](const Tensor& x, const Tensor& delta, const NormArgs& args) -> std::array<Tensor, 2> {
                const Tensor sum = delta.defined() ? x + delta : x;
                return {sum, norm(sum, module, args)};
              };
        },
        traits);
  }
};
}  // namespace

OPTRUSH_PLUGIN(LowPrecisionNorm, R"json({
  "name": "low_precision_norm", "version": "0.1.0", "kind": "optimization", "effect": "precision",
  "summary": "RMSNorm and LayerNorm read and write the low-precision type, instead of fp32",
  "doc": "The type is autocast's type with mixed_precision, and the type of the activations with bf16 weights. In fp32 it only fuses each norm into one kernel.",
  "check": [{}, {"with": ["mixed_precision"]}],
  "options": []
})json");
