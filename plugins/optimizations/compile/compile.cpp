// Compilation by Inductor (PyTorch 2, ASPLOS 2024, doi:10.1145/3620665.3640366), without Python in the
// training loop. Each block, and the head with its loss unless a plugin has a kernel for it, is traced in C++
// at its first call, with whatever the plugins below have made of its operators; Inductor compiles forward
// and backward to native code that reads and writes each tensor once where eager code has an operator for
// each step (norms, rotations, SwiGLU, residuals, casts), and chooses what to save for the backward. Blocks
// that are alike share one artifact, kept in a cache on disk. It pays where operators are small or bound by
// memory; with large matmuls it has little left to win, and in a short run the minutes of compiling are never
// earned back.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>

#include "cache.h"
#include "compiled_unit.h"
#include "optrush/plugin.h"
#include "optrush/scopes.h"
#include "self_check.h"
#include "unit_graph.h"

namespace {
using namespace optrush;
using namespace optrush::compile;

/// Slots whose work is a call that the traced graph still shows; inductor.py knows which.
constexpr std::array kSlotsToKeep = {"attention", "linear"};
/// Offered by a base of `head_loss` whose kernel does less than code that is compiled from its operators.
constexpr const char* kOwnKernel = "kernel";

std::vector<std::string> chosen_units(const Options& options) {
  auto units = options.list("units");
  const auto chosen = [&](const char* role) { return std::ranges::find(units, role) != units.end(); };
  for (const char* part : {"attention", "mlp"})
    if (chosen("block") && chosen(part))
      throw Error(ErrorCode::invalid_value,
                  "compile: units names 'block' and '" + std::string(part) + "', which is a part of it",
                  "name the block, or only its parts");
  return units;
}

Json to_json(const ActivationPolicy& activations) {
  for (const auto& slot : activations.keep)
    if (std::ranges::find(kSlotsToKeep, slot) == kSlotsToKeep.end())
      throw Error("compiled blocks cannot save the output of the slot '" + slot +
                      "', because its operators are fused into others",
                  "with 'compile', set keep to \"attention\", \"linear\" or both; or remove 'compile' from "
                  "the stack");
  if (activations.policy == ActivationPolicy::Kind::budget && activations.budget > 1)
    throw Error(ErrorCode::invalid_value,
                "with 'compile', the activation budget must be a fraction, not bytes",
                "give a budget from 0 to 1");
  return {
      {"policy", to_string(activations.policy)}, {"keep", activations.keep}, {"budget", activations.budget}};
}

class Compile final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    mode_ = options.string("mode");
    self_check_ = options.boolean("self_check");
    chosen_ = chosen_units(options);
    cache_ = std::make_unique<Cache>(options.string("cache"));
    recipe.on(Event::meta_initialized, Phase::compile, [this](Run& run) { find_experts(run); });
    recipe.on(Event::ready, Phase::compile, [this, &recipe](Run& run) {
      run_ = &run;
      activations_ = to_json(recipe.activations());
      if (recipe.activations().policy != ActivationPolicy::Kind::save && !compiles_blocks())
        throw Error(
            "this policy of checkpointing needs compiled blocks, but the option units of 'compile' has no "
            "\"block\"",
            "add \"block\" to units, or recompute whole blocks (policy = \"full\")");
      check_graphs(recipe, run);
    });
    recipe.counter({.name = "compiling", .unit = "s", .over_ranks = OverRanks::max},
                   [this] { return seconds_; });
    recipe.counter({.name = "graphs", .over_ranks = OverRanks::max},
                   [this] { return static_cast<double>(units_.size()); });
    recipe.on(Event::finished, Phase::compile, [this](Run& run) {
      run.note(
          "compile: " + std::to_string(units_.size()) + " distinct units compiled for " +
          std::to_string(sites_) +
          (self_check_ ? ", worst difference from eager " + c10::str(worst_) : ", not compared with eager"));
    });
    recipe.unit.wrap(Phase::compile,
                     [this, &recipe](UnitFunction inner, const Unit& unit) -> UnitFunction {
                       if (!compiles(unit, recipe)) return inner;
                       ++sites_;
                       return [this, inner = std::move(inner), &unit, known = Known()](
                                  const Tensor& x, const Batch& batch) mutable {
                         const bool trains =
                             (batch.labels.defined() || batch.input.defined()) && !of_reference();
                         return trains ? run(inner, unit, x, batch, known) : inner(x, batch);
                       };
                     },
                     {.trace = Trace::opaque, .capturable = true, .predictable = false});
  }

 private:
  void find_experts(const Unit& unit) {
    if (unit.role == "experts") {
      with_experts_.insert(unit.layer);
      for (const auto& expert : unit.children) experts_.insert(expert.get());
    }
    for (const auto& child : unit.children) find_experts(*child);
  }

  /// A mixture of experts computes parts whose sizes follow from values, which a graph cannot.
  void find_experts(Run& run) {
    for (const auto& unit : run.units()) find_experts(*unit);
    if (compiles_blocks() && !chosen_.empty() && !with_experts_.empty())
      throw Error(
          "compile: units names 'block', but the blocks of this model have mixtures of experts, whose "
          "sizes change with each batch",
          "name \"attention\" in its place, or leave out units");
  }

  bool compiles_blocks() const {
    return chosen_.empty() ? with_experts_.empty() : std::ranges::find(chosen_, "block") != chosen_.end();
  }

  /// Where nobody chose, each block, or its attention where it has experts; and the head, whose code would
  /// write logits and their gradient in more passes than a kernel of the loss does.
  bool compiles(const Unit& unit, const Recipe& recipe) const {
    if (experts_.contains(&unit)) return false;
    if (!chosen_.empty()) return std::ranges::find(chosen_, unit.role) != chosen_.end();
    const auto& offers = recipe.ops.head_loss.base().traits.offers;
    if (unit.role == "head") return std::ranges::find(offers, kOwnKernel) == offers.end();
    return unit.role == (with_experts_.contains(unit.layer) ? "attention" : "block");
  }

  /// In torch.compile two of the modes record CUDA graphs; here these are a technique over the whole step.
  void check_graphs(const Recipe& recipe, const Run& run) const {
    if (!run.device().is_cuda() || (mode_ != "reduce-overhead" && mode_ != "max-autotune")) return;
    for (const Edit& wrap : recipe.schedule.wraps())
      if (wrap.phase == Phase::capture) return;
    throw Error(ErrorCode::missing_value,
                "compile: mode = \"" + mode_ + "\" needs CUDA graphs, but no stacked plugin records them",
                "stack the plugin cuda_graphs, or use mode \"default\" or \"max-autotune-no-cudagraphs\"");
  }

  /// What one module has compiled so far, the last call's first to look at.
  struct Known {
    Signature last;
    const CompiledUnit* unit = nullptr;
    std::map<Signature, const CompiledUnit*> all;
    bool x_has_gradient = false;  ///< in training
  };

  Tensor run(const UnitFunction& inner, const Unit& unit, const Tensor& given, const Batch& batch,
             Known& known) {
    // Its forward is the same with a gradient and without: what training has compiled serves.
    if (!evaluating()) known.x_has_gradient = given.requires_grad();
    const Tensor x = evaluating() ? given.detach().requires_grad_(known.x_has_gradient) : given;
    const Tensors inputs = unit_inputs(unit, x, batch);
    Signature signature = signature_of(inputs, batch);
    if (signature != known.last) {
      auto& found = known.all[signature];
      if (found == nullptr) found = make(inner, unit, x, batch, inputs, known.all.size() > 1);
      known.unit = found;
      known.last = std::move(signature);
    }
    return (*known.unit)(inputs);
  }

  const CompiledUnit* make(const UnitFunction& inner, const Unit& unit, const Tensor& x, const Batch& batch,
                           const Tensors& inputs, bool again) {
    const auto guard = run_->compiling(unit.path);
    const auto start = std::chrono::steady_clock::now();
    if (again)
      run_->note("compile: " + unit.path + " was recompiled at step " + std::to_string(run_->step()) +
                 ": the shapes, types or names of its inputs changed");
    const UnitGraph graph = trace_unit(inner, unit, x, batch);
    const Request request{mode_, activations_, enabled_attention_kernels(), at::get_num_threads(), inputs};
    const auto key = Cache::key_of(graph, request);
    auto& compiled = units_[key];
    if (!compiled) {
      if (!cache_->holds(key)) cache_->compile(key, graph, request);
      compiled = std::make_unique<CompiledUnit>(cache_->folder_of(key));
      if (self_check_) worst_ = std::max(worst_, self_check(*compiled, graph, inner, unit, x, batch));
    }
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return compiled.get();
  }

  std::string mode_;
  bool self_check_ = true;
  std::vector<std::string> chosen_;
  std::set<int64_t> with_experts_;  ///< layers
  std::set<const Unit*> experts_;   ///< of mixtures, each an MLP
  std::unique_ptr<Cache> cache_;
  Run* run_ = nullptr;
  Json activations_;
  std::map<std::string, std::unique_ptr<CompiledUnit>> units_;
  int64_t sites_ = 0;
  double worst_ = 0, seconds_ = 0;
};
}  // namespace

OPTRUSH_PLUGIN(Compile, R"json({
  "name": "compile", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "blocks, head and loss compiled with Inductor, forward and backward",
  "needs": ["python", "compiler"],
  "options": [
    {"name": "mode", "type": "string", "default": "default",
     "choices": ["default", "max-autotune-no-cudagraphs", "max-autotune", "reduce-overhead"],
     "doc": "mode of torch.compile; on a GPU, the last two modes need the plugin cuda_graphs"},
    {"name": "self_check", "type": "boolean", "default": true,
     "doc": "compare each unit with eager code before its first use"},
    {"name": "units", "type": "list", "default": [], "choices": ["block", "attention", "mlp", "head"],
     "doc": "units to compile; empty: each block, and the head unless a plugin has a kernel for the loss"},
    {"name": "cache", "type": "string", "default": "",
     "doc": "folder for compiled code; default: $OPTRUSH_CACHE, $XDG_CACHE_HOME or ~/.cache"}
  ]
})json");
