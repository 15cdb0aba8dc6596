// Mixed precision (arXiv:1710.03740): matmuls and attention in bf16 or fp16, reductions and the master
// weights in fp32. It halves the bytes of activations and uses the fast matrix units. Each matrix is cast
// once per step for all its uses. The copies live until the step's gradients are final, two bytes per
// number. fp16 has 5 exponent bits, so small gradients vanish: its loss is scaled, and a step whose
// gradients overflow is skipped. On CPUs without bf16 or fp16 matrix instructions it is slower than fp32.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "optrush/plugin.h"

namespace {
using namespace optrush;

/// Dynamic loss scale. It stays on the device, so no host waits for an overflow.
class LossScaler {
 public:
  LossScaler(double initial, int64_t growth_interval, at::Device device) : growth_interval_(growth_interval) {
    const auto options = at::TensorOptions(at::kFloat).device(device);
    scale_ = at::full({}, initial, options);
    growth_tracker_ = at::zeros({}, options.dtype(at::kInt));
    overflow_ = at::zeros({}, options);
    skipped_ = at::zeros({}, options);
  }
  Tensor scale() const { return scale_; }
  Tensor growth_tracker() const { return growth_tracker_; }
  /// The number of skipped updates so far.
  Tensor skipped() const { return skipped_; }
  Tensor scaled_root(const Tensor& loss) const { return scale_.to(loss.scalar_type()); }
  void unscale(const Gradients& gradients, Update& update) {
    const at::NoGradGuard no_grad;
    overflow_.zero_();
    for (const Tensors& same : alike(gradients.tensors())) {
      Tensor seen = overflow_.to(same.front().device());  // itself, unless gradients are on another device
      at::_amp_foreach_non_finite_check_and_unscale_(same, seen, scale_.reciprocal().to(seen.device()));
      overflow_.copy_(seen);
    }
    gradients.agree(overflow_);
    update.skip = overflow_.clamp_max(1);
    skipped_.add_(update.skip);
    at::_amp_update_scale_(scale_, growth_tracker_, overflow_, /*growth=*/2.0, /*backoff=*/0.5,
                           growth_interval_);
  }

 private:
  int64_t growth_interval_;
  Tensor scale_, growth_tracker_, overflow_, skipped_;
};

class MixedPrecision final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    if (recipe.spec().train.dtype != "fp32")
      throw Error("mixed_precision needs fp32 parameters, but train.dtype is " + recipe.spec().train.dtype,
                  "leave train.dtype at fp32");
    const bool half = options.string("dtype") == "fp16";
    const auto type = half ? at::kHalf : at::kBFloat16;
    recipe.on(Event::meta_initialized, Phase::precision, [this, type](Run& run) {
      device_ = run.device().type();
      for (const char* role : {"linear", "head_loss"})
        for (const Module* module : run.modules(role))
          for (Param* param : module->params) param->compute_dtype = type;
    });
    recipe.scope(Phase::precision,
                 [this, type]() -> Scopes::Guard { return std::make_shared<Autocast>(device_, type); });
    if (half) scale_loss(recipe, options);
  }

 private:
  void scale_loss(Recipe& recipe, const Options& options) {
    recipe.on(
        Event::ready, Phase::precision,
        [this, initial = options.number("initial_scale"), interval = options.integer("growth_interval")](
            Run& run) { scaler_ = std::make_unique<LossScaler>(initial, interval, run.device()); });
    recipe.keep("scale", [this] { return scaler_->scale(); });
    recipe.keep("growth_tracker", [this] { return scaler_->growth_tracker(); });
    // It is equal on all ranks.
    recipe.counter({.name = "loss scale at the end", .over_ranks = OverRanks::max},
                   [this] { return scaler_->scale().item<double>(); });
    recipe.counter({.name = "skipped updates", .over_ranks = OverRanks::max},
                   [this] { return scaler_->skipped().item<double>(); });
    const Traits traits{.trace = Trace::aten, .capturable = true};
    recipe.loss_gradient.replace([this](const Tensor& loss) { return scaler_->scaled_root(loss); }, traits);
    recipe.gradients.wrap(
        Phase::precision,
        [this](auto inner) {
          return [this, inner](Gradients& gradients, Update& update) {
            inner(gradients, update);
            scaler_->unscale(gradients, update);
          };
        },
        traits);
  }

  at::DeviceType device_ = at::kCPU;
  std::unique_ptr<LossScaler> scaler_;
};
}  // namespace

OPTRUSH_PLUGIN(MixedPrecision, R"json({
  "name": "mixed_precision", "version": "0.1.0", "kind": "optimization", "effect": "precision",
  "summary": "matmuls and attention in bf16 or fp16, fp32 master weights",
  "check": [{}, {"options": {"dtype": "fp16"}}],
  "options": [
    {"name": "dtype", "type": "string", "default": "bf16", "choices": ["bf16", "fp16"], "doc": "type of the matmuls"},
    {"name": "initial_scale", "type": "number", "default": 65536, "min": 1, "max": 1e12, "doc": "fp16: initial loss scale"},
    {"name": "growth_interval", "type": "integer", "default": 2000, "min": 1, "max": 1000000,
     "doc": "fp16: steps without overflow before the scale doubles"}
  ]
})json");
