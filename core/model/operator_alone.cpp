// One operator of the block with as little else as training allows, so that the phases of a step show its
// forward and backward. Its inputs are random activations, which need gradients as in a block. The loss is
// the mean square of the outputs times a trained gain: one more pass forward and one more backward. head_loss
// is its own loss. Every step has the same inputs. MLPs are layers of a network: each has a residual, without
// which the signal would vanish within a few layers, and its matrices learn from other inputs in each step.
#include "model/kinds.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <tuple>

#include "model/binder.h"
#include "model/declare.h"
#include "model/operators.h"
#include "model/rotary.h"
#include "params/init.h"

namespace optrush {
namespace {
/// The unit with all inputs as one leaf: (operands, B, S, D); for MLPs (B, S, D).
std::unique_ptr<Unit> operator_input(const OperatorSpec& spec, at::ScalarType dtype) {
  auto unit = make_unit("input", UnitRole::embed, -1);
  unit->build = [operands = spec.operands(), layers = spec.op == "mlp",
                 dtype](const Binder&) -> UnitFunction {
    return [operands, layers, dtype](const Tensor&, const Batch& batch) {
      const Tensor& given = batch.input;
      const Tensor x =
          layers ? given : given.view({operands, given.size(0), given.size(1), given.size(2) / operands});
      return x.to(dtype).detach().requires_grad_(at::GradMode::is_enabled());
    };
  };
  return unit;
}

/// Maps the inputs to the tensor of which the loss is taken.
using Chain = std::function<Tensor(const Tensors&, const Batch&)>;

class OperatorDeclaration {
 public:
  OperatorDeclaration(const OperatorSpec& spec, Params& params, at::ScalarType dtype)
      : spec_(spec), params_(params), dtype_(dtype) {}

  std::unique_ptr<Unit> operators() {
    auto unit = make_unit("operators", UnitRole::block, 0);
    for (int64_t i = 0; i < spec_.repeat; ++i) add_site(*unit, "operators." + std::to_string(i));
    unit->build = [spec = spec_, &modules = unit->modules](const Binder& bind) -> UnitFunction {
      const Chain chain = chain_of(spec, modules, bind);
      return [chain](const Tensor& x, const Batch& batch) { return chain(x.unbind(0), batch); };
    };
    return unit;
  }

  std::unique_ptr<Unit> mlp(int64_t layer) {
    const std::string path = "model.layers." + std::to_string(layer);
    auto unit = make_unit(path, UnitRole::block, layer);
    const Unit& mlp = *unit->children.emplace_back(declare_mlp(params_, path + ".mlp", layer,
                                                               {.dim = spec_.dim,
                                                                .ffn_dim = spec_.ffn_dim,
                                                                .gate_and_up = uniform_by_fan_in(),
                                                                .down = uniform_by_fan_in(),
                                                                .dtype = dtype_}));
    unit->build = [&mlp](const Binder& bind) -> UnitFunction {
      return [mlp = bind.unit(mlp)](const Tensor& x_BSD, const Batch& batch) {
        return x_BSD + mlp(x_BSD, batch);
      };
    };
    return unit;
  }

  std::unique_ptr<Unit> loss() {
    auto unit = make_unit("head", UnitRole::head, -1);
    const Param& gain = vector("head.gain", 1, dtype_ == at::kDouble ? at::kDouble : at::kFloat);
    unit->modules.emplace_back(Module{"head", "gain", -1, {&params_.at(gain.name)}});
    unit->build = [&gain, width = spec_.dim](const Binder&) -> UnitFunction {
      return [&gain, width](const Tensor& x, const Batch&) {
        const Tensor squares = at::linalg_vector_norm(x.to(plain::accumulate_type(x))).square();
        return (gain.value().square() * squares).sum() / static_cast<double>(width);
      };
    };
    return unit;
  }

  std::unique_ptr<Unit> head_loss() {
    auto unit = make_unit("lm_head", UnitRole::head, -1);
    Param& weight = matrix("lm_head.weight", spec_.vocab_size, {"vocab", "model"});
    const Module& logits = unit->modules.emplace_back(Module{"lm_head", "linear", -1, {&weight}});
    const Module& loss = unit->modules.emplace_back(Module{"loss", "head_loss", -1, {&weight}});
    unit->build = [&](const Binder& bind) -> UnitFunction {
      return [loss = bind.head_loss(loss), parts = Ops::HeadParts{bind.linear(logits)}](
                 const Tensor& x, const Batch& batch) { return loss(x[0], batch.labels, parts); };
    };
    return unit;
  }

 private:
  void add_site(Unit& unit, const std::string& path) {
    Module module{path, spec_.op, 0, {}};
    if (spec_.op == "linear")
      module.params = {&matrix(path + ".weight", spec_.dim, {"model", "model"})};
    else if (spec_.op == "norm" || spec_.op == "add_norm")
      module.params = {&vector(path + ".weight", spec_.dim, dtype_)};
    unit.modules.push_back(std::move(module));
  }

  Param& matrix(const std::string& name, int64_t out, std::vector<std::string> axes) {
    return params_.add({.name = name,
                        .shape = {out, spec_.dim},
                        .axes = std::move(axes),
                        .init = uniform_by_fan_in(),
                        .dtype = dtype_});
  }
  Param& vector(const std::string& name, int64_t size, at::ScalarType dtype) {
    return params_.add(vector_param(name, size, "model", constant(1), dtype));
  }

  static Chain chain_of(const OperatorSpec& spec, const std::deque<Module>& modules, const Binder& bind) {
    const auto each = [&](auto&& resolve) {
      std::vector<decltype(resolve(modules.front()))> functions;
      // Plugins may have added modules behind them.
      for (auto module = modules.begin(); std::ssize(functions) < spec.repeat; ++module)
        functions.push_back(resolve(*module));
      return functions;
    };
    const auto heads = [count = spec.n_heads](const Tensor& x) {
      return x.unflatten(-1, {count, -1}).transpose(1, 2);
    };
    if (spec.op == "norm")
      return [all = each([&](const Module& s) { return bind.norm(s); })](const Tensors& in, const Batch&) {
        Tensor x = in[0];
        for (const auto& norm : all) x = norm(x, NormArgs{});
        return x;
      };
    if (spec.op == "linear")
      return [all = each([&](const Module& s) { return bind.linear(s); })](const Tensors& in, const Batch&) {
        Tensor x = in[0];
        for (const auto& linear : all) x = linear(x);
        return x;
      };
    if (spec.op == "add_norm")
      return
          [all = each([&](const Module& s) { return bind.add_norm(s); })](const Tensors& in, const Batch&) {
            std::array<Tensor, 2> pair = {in[0], in[1]};
            for (const auto& add_norm : all) pair = add_norm(pair[0], pair[1], NormArgs{});
            return pair[0] + pair[1];
          };
    if (spec.op == "swiglu")
      return [all = each([&](const Module& s) { return bind.swiglu(s); })](const Tensors& in, const Batch&) {
        Tensor x = in[0];
        for (size_t i = 0; i < all.size(); ++i) x = all[i](x, in[i + 1]);
        return x;
      };
    if (spec.op == "position")
      return [heads, all = each([&](const Module& s) { return bind.position(s); })](const Tensors& in,
                                                                                    const Batch& batch) {
        std::array<Tensor, 2> pair = {heads(in[0]), heads(in[1])};
        for (const auto& position : all) pair = position(pair[0], pair[1], batch);
        return pair[0] + pair[1];
      };
    const int64_t head_dim = spec.dim / spec.n_heads;
    const AttentionArgs args{.scale = 1 / std::sqrt(static_cast<double>(head_dim))};
    return [heads, args, all = each([&](const Module& s) { return bind.attention(s); })](const Tensors& in,
                                                                                         const Batch&) {
      Tensor q = heads(in[0]);
      for (const auto& attention : all) q = attention(q, heads(in[1]), heads(in[2]), args).out;
      return q;
    };
  }

  const OperatorSpec& spec_;
  Params& params_;
  at::ScalarType dtype_;
};

/// Sets the side inputs that an operator reads from a batch.
std::function<void(Batch&)> side_inputs(const OperatorSpec& spec, at::ScalarType dtype) {
  if (spec.op == "position")
    return [table = rotary_table({.dim = spec.dim, .n_heads = spec.n_heads}),
            type = dtype == at::kDouble ? at::kDouble : at::kFloat](Batch& batch) mutable {
      // once, because a copy makes the host wait
      table.frequencies = table.frequencies.to(batch.input.device());
      const int64_t rows = batch.input.size(0), length = batch.input.size(1);
      batch.positions = at::arange(length, batch.input.options().dtype(at::kLong)).expand({rows, length});
      std::tie(batch.cos, batch.sin) = rotary(batch.positions, table, type);
    };
  if (spec.op == "head_loss")
    return [vocabulary = spec.vocab_size](Batch& batch) {
      constexpr int64_t kStride = 7919;  // a prime, so that labels are spread over the vocabulary
      const int64_t rows = batch.input.size(0), length = batch.input.size(1);
      const auto numbers = at::arange(rows * length, batch.input.options().dtype(at::kLong));
      batch.labels = (numbers * kStride).remainder(vocabulary).view({rows, length});
    };
  return [](Batch&) {};
}

/// Uses the first inputs in every step. From random inputs, an operator can learn nothing but these inputs,
/// and the gate requires a falling loss, however small the steps are.
std::function<void(Batch&)> same_inputs() {
  return [first = Tensor()](Batch& batch) mutable {
    const bool known =
        first.defined() && first.device() == batch.input.device() && first.sizes() == batch.input.sizes();
    if (known)
      batch.input = first;
    else
      first = batch.input;
  };
}
/// The loss: the mean square, summed over positions. The host divides it by their number.
std::unique_ptr<Unit> mean_square() {
  auto unit = make_unit("head", UnitRole::head, -1);
  unit->build = [](const Binder&) -> UnitFunction {
    return [](const Tensor& x_BSD, const Batch&) {
      return x_BSD.to(plain::accumulate_type(x_BSD)).square().mean(-1).sum();
    };
  };
  return unit;
}
}  // namespace

Model declare_operator(const OperatorSpec& spec, Params& params, at::ScalarType dtype) {
  OperatorDeclaration declare(spec, params, dtype);
  Model model;
  model.input_dim = spec.operands() * spec.dim;
  model.units.push_back(operator_input(spec, dtype));
  if (spec.op == "mlp") {
    for (int64_t layer = 0; layer < spec.repeat; ++layer) model.units.push_back(declare.mlp(layer));
    model.units.push_back(mean_square());
    model.prepare = [](Batch&) {};
    return model;
  }
  if (spec.op == "head_loss") {
    model.units.push_back(declare.head_loss());
  } else {
    model.units.push_back(declare.operators());
    model.units.push_back(declare.loss());
  }
  model.prepare = [keep = same_inputs(), fill = side_inputs(spec, dtype)](Batch& batch) {
    keep(batch);
    fill(batch);
  };
  if (spec.op == "attention")
    model.attention_flops_of_a_pair = 12.0 * static_cast<double>(spec.repeat * spec.dim);
  return model;
}
}  // namespace optrush
