// Activation checkpointing (arXiv:1604.06174): a block keeps its input alone and runs its forward again in
// the backward. Activations shrink from all of every block to one input a block and the whole of one block;
// it costs one more forward of what is checkpointed. It pays where memory is what limits the batch; with
// memory to spare it only costs time.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>
#include <optional>

#include "optrush/plugin.h"

namespace {
using namespace optrush;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// State of the random generator of a device, for operators such as dropout that must draw the same again.
class RandomState {
 public:
  explicit RandomState(at::Device device) : generator_(at::globalContext().defaultGenerator(device)) {}
  Tensor read() const {
    auto generator = generator_;
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
  }
  void write(const Tensor& state) const {
    auto generator = generator_;
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }

 private:
  at::Generator generator_;
};

/// What one checkpointed call needs to run again. Lives in the autograd node.
struct Replay final : torch::CustomClassHolder {
  UnitFunction forward;
  Batch batch;
  const Scopes* scopes = nullptr;
  std::optional<Tensor> random;  ///< only where the forward drew random numbers
};

struct Recompute : torch::autograd::Function<Recompute> {
  /// `anchor` requires a gradient so that the node exists even where `x` does not (a frozen embedding below
  /// it).
  static Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Replay>& replay, const Tensor& x,
                        const Tensor& /*anchor*/) {
    context->saved_data["replay"] =
        c10::IValue::make_capsule(c10::intrusive_ptr<torch::CustomClassHolder>(replay));
    context->save_for_backward({x});
    const RandomState random(x.device());
    const Tensor before = random.read();
    Tensor out = replay->forward(x, replay->batch);
    if (!at::equal(before, random.read())) replay->random = before;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto replay = c10::static_intrusive_pointer_cast<Replay>(context->saved_data["replay"].toCapsule());
    const Tensor saved = context->get_saved_variables().front();
    const Tensor x = saved.detach().requires_grad_(saved.requires_grad());
    const Tensor out = run_again(*replay, x);
    torch::autograd::backward({out}, {gradients.front()});
    return {Tensor(), x.grad(), Tensor()};
  }

  static Tensor run_again(const Replay& replay, const Tensor& x) {
    const at::AutoGradMode with_gradients(true);
    const auto scopes = replay.scopes->enter();
    const RandomState random(x.device());
    std::optional<Tensor> present;
    if (replay.random) present = random.read(), random.write(*replay.random);
    const Tensor out = replay.forward(x, replay.batch);
    if (present) random.write(*present);
    return out;
  }
};

class ActivationCheckpointing final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const int64_t every = options.string("policy") == "full" ? 1 : options.integer("every");
    if (options.string("policy") == "full" && options.integer("every") != 2)
      throw Error("option 'every' has no effect with policy = \"full\"",
                  "use policy = \"every\", or leave it out");
    recipe.unit.wrap(
        Phase::checkpoint,
        [this, every, &scopes = recipe.scopes()](UnitFunction inner, const Unit& unit) -> UnitFunction {
          if (unit.role != "block" || unit.layer % every != 0) return inner;
          return [this, inner = std::move(inner), &scopes](const Tensor& x, const Batch& batch) {
            return at::GradMode::is_enabled() ? checkpointed(inner, x, batch, scopes) : inner(x, batch);
          };
        });
  }

 private:
  Tensor checkpointed(const UnitFunction& inner, const Tensor& x, const Batch& batch, const Scopes& scopes) {
    if (!anchor_.defined()) anchor_ = at::empty({0}, x.options()).requires_grad_();
    auto replay = c10::make_intrusive<Replay>();
    replay->forward = inner;
    replay->batch = batch;
    replay->scopes = &scopes;
    return Recompute::apply(replay, x, anchor_);
  }
  Tensor anchor_;
};
}  // namespace

OPTRUSH_PLUGIN(ActivationCheckpointing, R"json({
  "name": "activation_checkpointing", "version": "0.1.0", "kind": "optimization", "effect": "exact",
  "summary": "blocks keep their input and run their forward again in the backward",
  "options": [
    {"name": "policy", "type": "string", "default": "full", "choices": ["full", "every"],
     "doc": "full: each block; every: each n-th block, by 'every'"},
    {"name": "every", "type": "integer", "default": 2, "min": 2, "max": 1024, "doc": "policy every: block 0, n, 2n, ..."}
  ]
})json");
