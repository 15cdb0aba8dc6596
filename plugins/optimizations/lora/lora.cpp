// LoRA (arXiv:2106.09685): the model is frozen. An update s B A x is added to chosen linears W x and trained,
// with A (rank, in), B (out, rank) and s = alpha / rank. Gradients and optimizer state exist only for A and
// B. The backward has a third fewer matmuls. B starts at zero, so the first forward is the model's own. It
// trains another function than full fine-tuning, and so is compared with its own plain form. Options have the
// names of PEFT:
// - rsLoRA (arXiv:2312.03732): s = alpha / sqrt(rank), so that a higher rank learns as fast as a lower one.
// - DoRA (arXiv:2402.09353): the result is m (W + s B A) x / |W + s B A|, with the length of each row and a
//   trained magnitude m (out), which starts as |W|. As in section 4.3 the length has no gradient.
// - LoRA+ (arXiv:2402.12354): a higher learning rate for B.
// - modules_to_save: further modules of the model are trained whole.
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "linear_groups/names.h"
#include "module_names.h"
#include "optrush/advanced/data_parallel.h"
#include "optrush/advanced/initial_value.h"
#include "optrush/plugin.h"
#include "peft_folder.h"
#include "two_rates.h"

namespace {
using namespace optrush;
using namespace optrush::lora;

/// What is added to one linear.
struct Added {
  const Param* weight;
  Param *down, *up;            ///< A and B
  Param* magnitude = nullptr;  ///< null: no DoRA
  double scale = 1;
  Mesh::Names input_over = {};  ///< dimensions over which ranks have other columns of the matrix
  Group* columns = nullptr;     ///< the ranks of these dimensions; null: this rank has whole rows
};

at::ScalarType wide(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor row_lengths(const Tensor& matrix) {
  return at::linalg_vector_norm(matrix, 2, {1}, /*keepdim=*/false, wide(matrix));
}

/// base + s B A x. One product adds to the output: a separate update, and its scaled form, would be two more
/// tensors of the output's size, also in the backward.
Tensor plus_update(const Tensor& base, const Tensor& x, const Added& added) {
  const Tensor low = at::linear(x, added.down->compute_value());
  return at::addmm(base.flatten(0, -2), low.flatten(0, -2), added.up->compute_value().t(), /*beta=*/1,
                   added.scale)
      .view_as(base);
}

/// m / |W + s B A| (out). A row's square is |w|^2 + 2 s (w A^T) b + s^2 (b A A^T) b, without a matrix of the
/// size of W.
Tensor gain(const Added& added, at::ScalarType type) {
  const Tensor weight = added.weight->compute_value().detach(), down = added.down->compute_value().detach(),
               up = added.up->compute_value().detach();
  const Tensor by_rank = 2 * added.scale * at::linear(weight, down) +
                         added.scale * added.scale * at::linear(up, at::linear(down, down));
  const auto exact = wide(weight);
  Tensor squares = row_lengths(weight).square() + (by_rank.to(exact) * up.to(exact)).sum(1);
  if (added.columns != nullptr) squares = added.columns->all_reduced(squares);
  const Tensor lengths = squares.clamp_min(std::numeric_limits<float>::min()).sqrt();
  return (added.magnitude->compute_value() / lengths).to(type);
}

class Lora final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    rank_ = options.integer("rank");
    alpha_ = options.number("alpha");
    by_root_ = options.boolean("use_rslora");
    with_magnitude_ = options.boolean("use_dora");
    dropout_ = options.number("dropout");
    targets_ = options.list("target_modules");
    saved_ = options.list("modules_to_save");
    ranks_ = Patterns("rank_pattern", options.json().at("rank_pattern"));
    alphas_ = Patterns("alpha_pattern", options.json().at("alpha_pattern"));
    const Json config = {{"peft_type", "LORA"},
                         {"task_type", "CAUSAL_LM"},
                         {"r", rank_},
                         {"lora_alpha", alpha_},
                         {"lora_dropout", dropout_},
                         {"target_modules", targets_},
                         {"modules_to_save", saved_.empty() ? Json() : Json(saved_)},
                         {"rank_pattern", options.json().at("rank_pattern")},
                         {"alpha_pattern", options.json().at("alpha_pattern")},
                         {"use_rslora", by_root_},
                         {"use_dora", with_magnitude_},
                         {"bias", "none"}};
    recipe.describe("peft", config);
    folder_ = options.string("adapter");
    if (!folder_.empty()) check_adapter(folder_, config);
    edit(recipe, options.number("loraplus_lr_ratio"));
  }

 private:
  void edit(Recipe& recipe, double ratio) {
    recipe.on(Event::meta_initialized, Phase::adapter, [this](Run& run) { adapt(run); });
    recipe.on(Event::meta_initialized, Phase::context, [this](Run& run) { find_cut_rows(run.mesh()); });
    recipe.ops.linear.wrap(Phase::adapter,
                           [this, &mesh = recipe.mesh](auto inner, const Module& module) {
                             return wrap(std::move(inner), module, mesh);
                           },
                           {.trace = Trace::aten, .capturable = true});
    if (ratio == 1) return;
    recipe.optimizer.wrap(Phase::adapter,
                          [ratio](auto inner) {
                            return [ratio, inner](Run& run, std::span<Shard> shards) {
                              check_rates(run, shards);
                              return two_rates(ratio, shards,
                                               [&](std::span<Shard> group) { return inner(run, group); });
                            };
                          },
                          {.trace = Trace::opaque, .capturable = true, .predictable = true});
  }

  void adapt(Run& run) {
    if (targets_.empty())
      throw Error(ErrorCode::missing_value, "target_modules is empty, so no parameter would be trained",
                  "name linear layers, for example { \"q_proj\", \"v_proj\" }");
    for (Param* param : run.params().all()) param->trainable = false;
    std::set<std::string> names;
    std::vector<std::string> adapted;
    for (Module* module : run.modules("linear")) {
      names.insert(last_name(module->path));
      if (std::ranges::none_of(targets_, [&](const auto& name) { return is_target(module->path, name); }))
        continue;
      added_[module->path] = add(run.params(), *module);
      adapted.push_back(module->path);
    }
    for (const auto& target : targets_)
      if (std::ranges::none_of(adapted, [&](const auto& path) { return is_target(path, target); }))
        throw Error(ErrorCode::unknown_name,
                    "target_modules names '" + target + "', but this model has no such linear layer",
                    names.empty() ? "remove the rung: the model has no linear layers" : one_of(names));
    ranks_.refuse_unused(adapted);
    alphas_.refuse_unused(adapted);
    train_saved(run);
  }

  Added add(Params& params, Module& module) {
    const Param& weight = *module.params.at(0);
    const auto rank = static_cast<int64_t>(ranks_.value_of(module.path, static_cast<double>(rank_)));
    const double root = std::sqrt(static_cast<double>(rank));
    const auto uniform = [bound = 1 / std::sqrt(static_cast<double>(weight.shape[1]))](Tensor& value,
                                                                                       at::Generator& g) {
      value.uniform_(-bound, bound, g);  // kaiming_uniform(a = sqrt(5)), as PEFT
    };
    const auto zero = [](Tensor& value, at::Generator&) { value.zero_(); };
    using Init = std::function<void(Tensor&, at::Generator&)>;
    const auto add_param = [&](const char* suffix, std::vector<int64_t> shape, std::vector<std::string> axes,
                               Init init) {
      Param& param = params.add({.name = module.path + suffix,
                                 .shape = std::move(shape),
                                 .axes = std::move(axes),
                                 .init = folder_.empty() ? std::move(init) : Init(FromFolder(folder_)),
                                 .dtype = weight.dtype});
      module.params.push_back(&param);
      return &param;
    };
    Added added{
        .weight = &weight,
        .down = add_param(".lora_A.weight", {rank, weight.shape[1]}, {"rank", weight.axes[1]}, uniform),
        .up = add_param(".lora_B.weight", {weight.shape[0], rank}, {weight.axes[0], "rank"}, zero),
        .scale = alphas_.value_of(module.path, alpha_) / (by_root_ ? root : root * root)};
    if (!with_magnitude_) return added;
    const auto lengths = [&weight](const Tensor& value) {
      const Tensor kept = value.to(weight.dtype);
      return row_lengths(weight.codec ? weight.codec->decode(weight.codec->encode(kept), kept.sizes())
                                      : kept);
    };
    added.magnitude = add_param(".lora_magnitude_vector", {weight.shape[0]}, {weight.axes[0]},
                                FromParameter(weight, lengths));
    added.magnitude->decay = false;
    return added;
  }

  /// Trains the modules of modules_to_save.
  void train_saved(Run& run) {
    std::map<const Param*, size_t> uses;
    std::vector<Module*> modules;
    for (const char* role : {"embedding", "linear", "norm", "add_norm", "router", "shared_expert_gate"})
      std::ranges::copy(run.modules(role), std::back_inserter(modules));
    std::erase_if(modules, [](const Module* module) { return module->params.empty(); });
    std::set<std::string> names;
    for (const Module* module : modules) {
      names.insert(last_name(module->path));
      for (const Param* param : module->params) ++uses[param];
    }
    for (const auto& name : saved_) {
      bool found = false;
      for (Module* module : modules) {
        if (!is_saved(module->path, name)) continue;
        found = true;
        if (added_.contains(module->path))
          throw Error(ErrorCode::conflict,
                      "modules_to_save names '" + name + "' and target_modules '" + module->path +
                          "', which is a part of it",
                      "train a module whole or by an update: remove one of the two names");
        for (Param* param : module->params) {
          if (uses.at(param) > 1)
            throw Error(
                ErrorCode::unsupported,
                "modules_to_save names '" + name +
                    "', but the model's head is its embedding (tie_word_embeddings): PEFT would train a "
                    "copy for one of the two",
                "remove '" + name + "' from modules_to_save, or untie them (tie_embeddings = false)");
          param->trainable = true;
          if (!folder_.empty()) param->init = FromFolder(folder_);
        }
      }
      if (!found)
        throw Error(ErrorCode::unknown_name,
                    "modules_to_save names '" + name + "', but this model has no such module", one_of(names));
    }
  }

  /// Tensor parallelism has cut the matrices; data parallelism cuts none.
  void find_cut_rows(const Mesh& mesh) {
    for (auto& [path, added] : added_)
      if (added.magnitude != nullptr && added.weight->layout.box_shape().at(1) < added.weight->shape[1]) {
        added.input_over = added.weight->cut_over();
        added.columns = &mesh.group(added.input_over);
      }
  }

  Ops::Linear::Fn wrap(Ops::Linear::Fn inner, const Module& module, const Mesh& mesh) const {
    const auto found = added_.find(module.path);
    if (found == added_.end()) return inner;
    if (const Param& down = *found->second.down;
        dropout_ > 0 && (down.layout.box_shape().at(1) < down.shape[1] || mesh.size(mesh.sequence()) > 1))
      throw Error(
          "lora: dropout is not supported for '" + module.path + "', whose input is sharded over ranks",
          "set dropout = 0, or remove '" + last_name(module.path) + "' from target_modules");
    return [inner = std::move(inner), added = found->second, dropout = dropout_](const Tensor& x) {
      if (without_adapters()) return inner(x);
      const bool drops = dropout > 0 && !evaluating();
      const Tensor dropped = drops ? at::dropout(x, dropout, /*train=*/true) : x;
      const Tensor out = inner(x);
      if (added.magnitude == nullptr) return plus_update(out, dropped, added);
      if (!drops) return plus_update(out, x, added) * gain(added, out.scalar_type());
      // As in PEFT: the change of W's rows has the dropout, W x has none.
      const Tensor base = inner(dropped);
      return out - base + plus_update(base, dropped, added) * gain(added, out.scalar_type());
    };
  }

  /// Refuses an optimizer that takes the matrices B away from the one that this plugin wraps.
  static void check_rates(Run& run, std::span<const Shard> shards) {
    for (const Shard& shard : run.data_parallel().shards())
      if (is_fast(shard) && std::ranges::find(shards, shard.key(), &Shard::key) == shards.end())
        throw Error(ErrorCode::conflict,
                    "lora: another plugin updates '" + shard.segments.front().param->name +
                        "' with its own optimizer, so loraplus_lr_ratio would have no effect",
                    "set loraplus_lr_ratio = 1, or remove that plugin");
  }

  int64_t rank_ = 0;
  double alpha_ = 0, dropout_ = 0;
  bool by_root_ = false, with_magnitude_ = false;
  std::vector<std::string> targets_, saved_;
  Patterns ranks_, alphas_;
  std::string folder_;                  ///< of a PEFT adapter with the initial values; or empty
  std::map<std::string, Added> added_;  ///< by path of the linear
};
}  // namespace

OPTRUSH_PLUGIN(Lora, R"json({
  "name": "lora", "version": "0.2.0", "kind": "optimization", "effect": "model",
  "summary": "trained low-rank updates beside frozen weights: LoRA, rsLoRA, DoRA, LoRA+",
  "check": [{"options": {"rank": 4}},
            {"options": {"rank": 4, "target_modules": ["o_proj", "gate_proj", "up_proj", "down_proj"]}},
            {"options": {"rank": 4, "target_modules": ["q_proj", "down_proj"], "use_dora": true, "use_rslora": true,
                         "rank_pattern": {"q_proj": 2}, "modules_to_save": ["norm"], "loraplus_lr_ratio": 4}, "gradient": false}],
  "options": [
    {"name": "rank", "type": "integer", "default": 8, "min": 1, "max": 4096, "doc": "rank of the update"},
    {"name": "alpha", "type": "number", "default": 16, "min": 0, "max": 65536, "doc": "the update is scaled by alpha / rank"},
    {"name": "dropout", "type": "number", "default": 0, "min": 0, "max": 0.99, "doc": "dropout probability of the update's input"},
    {"name": "target_modules", "type": "list", "default": ["q_proj", "v_proj"],
     "doc": "linear layers by their name or the end of their path: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head"},
    {"name": "use_rslora", "type": "boolean", "default": false, "doc": "rsLoRA: the update is scaled by alpha / sqrt(rank)"},
    {"name": "use_dora", "type": "boolean", "default": false, "doc": "DoRA: the length of each row of the matrix is trained separately"},
    {"name": "rank_pattern", "type": "integers", "default": {}, "min": 1, "max": 4096,
     "doc": "other ranks, by a regular expression for the name or the end of the path of linear layers"},
    {"name": "alpha_pattern", "type": "numbers", "default": {}, "min": 0, "max": 65536,
     "doc": "other values of alpha, by the same expressions"},
    {"name": "modules_to_save", "type": "list", "default": [],
     "doc": "modules that are trained whole, by the end of their path: embed_tokens, lm_head, norm"},
    {"name": "loraplus_lr_ratio", "type": "number", "default": 1, "min": 1, "max": 1024,
     "doc": "LoRA+: learning rate of B and of vectors, relative to the rate of A"},
    {"name": "adapter", "type": "folder", "default": "",
     "doc": "folder of a PEFT adapter with the same options, whose values the training starts from"}
  ]
})json");
