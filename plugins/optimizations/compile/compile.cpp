// Compilation by Inductor (PyTorch 2, ASPLOS 2024, doi:10.1145/3620665.3640366), without Python in the
// training loop. Each block, and the head with its loss unless a plugin has a kernel for it, is traced in C++
// at its first call, with the edits of the other plugins to its operators. Inductor compiles forward and
// backward to native code, and chooses the tensors to save for the backward. The code reads and writes each
// tensor once where eager code has an operator for each step (norms, rotations, SwiGLU, residuals, casts).
// Equal blocks share one artifact, which is kept in a cache on disk. It pays if operators are small or
// limited by memory. With large matmuls the gain is small. A short run does not earn back the minutes of
// compiling.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "cache.h"
#include "choice.h"
#include "compiled_unit.h"
#include "optrush/plugin.h"
#include "optrush/scopes.h"
#include "self_check.h"
#include "unit_graph.h"

namespace {
std::string first_line_of(const std::string& text) { return text.substr(0, text.find('\n')); }

using namespace optrush;
using namespace optrush::compile;

/// Slots that are one call in the traced graph; inductor.py knows these calls.
constexpr std::array kSlotsToKeep = {"attention", "linear"};
/// Offered by a base of `head_loss` if its kernel does less work than code that is compiled from its
/// operators.
constexpr const char* kAuto = "auto";

/// Inductor does not record CUDA graphs here, so a mode with them has the same code as the mode without them.
std::string mode_of_code(const std::string& mode) {
  if (mode == "reduce-overhead") return "default";
  if (mode == "max-autotune") return "max-autotune-no-cudagraphs";
  return mode;
}

std::vector<std::string> chosen_units(const Options& options) {
  auto units = options.list("units");
  std::erase(units, kAuto);
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
    const auto units = options.list("units");
    auto_ = std::ranges::find(units, kAuto) != units.end();
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
      if (recipe.activations().policy != ActivationPolicy::Kind::save && auto_)
        throw Error(
            ErrorCode::invalid_value,
            "this policy of checkpointing needs compiled blocks, but units = \"auto\" of 'compile' may leave "
            "blocks eager",
            "leave \"auto\" out of units, or recompute whole blocks (policy = \"full\")");
      check_graphs(recipe, run);
    });
    recipe.counter({.name = "compiling", .unit = "s", .over_ranks = OverRanks::max},
                   [this] { return seconds_; });
    recipe.counter({.name = "graphs", .over_ranks = OverRanks::max},
                   [this] { return static_cast<double>(units_.size()); });
    recipe.on(Event::finished, Phase::compile, [this](Run& run) {
      for (const auto& [key, choice] : choices_) run.note(text_of(key, choice));
      run.note(
          "compile: " + std::to_string(units_.size()) + " distinct units compiled for " +
          std::to_string(std::ranges::count_if(sites_, [](const Site& site) { return !site.stays_eager; })) +
          (self_check_ ? ", worst difference from eager " + c10::str(worst_) : ", not compared with eager"));
    });
    recipe.unit.wrap(Phase::compile,
                     [this, &recipe](UnitFunction inner, const Unit& unit) -> UnitFunction {
                       if (!compiles(unit, recipe)) return inner;
                       Site& site = sites_.emplace_back(Site{.eager = std::move(inner), .unit = &unit});
                       return [this, &site](const Tensor& x, const Batch& batch) {
                         const bool trains =
                             (batch.labels.defined() || batch.input.defined()) && !of_reference();
                         return trains ? run(site, x, batch) : site.eager(x, batch);
                       };
                     },
                     {.trace = Trace::opaque, .capturable = true, .predictable = false});
  }

 private:
  void find_experts(const Unit& unit) {
    if (unit.role == UnitRole::experts) {
      with_experts_.insert(unit.layer);
      for (const auto& expert : unit.children) experts_.insert(expert.get());
    }
    for (const auto& child : unit.children) find_experts(*child);
  }

  /// Finds the experts. A mixture computes parts whose sizes depend on values, which a graph does not
  /// support.
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

  /// By default each block, or only the attention of a block with experts; and the head, unless the loss has
  /// a kernel: compiled code would write logits and their gradient in more passes than the kernel.
  bool compiles(const Unit& unit, const Recipe& recipe) const {
    if (experts_.contains(&unit)) return false;
    if (!chosen_.empty()) return std::ranges::find(chosen_, to_string(unit.role)) != chosen_.end();
    if (unit.role == UnitRole::head) return !recipe.ops.head_loss.base().traits.has(feature::own_kernel);
    return unit.role == (with_experts_.contains(unit.layer) ? UnitRole::attention : UnitRole::block);
  }

  /// In torch.compile two of the modes record CUDA graphs. Here the plugin cuda_graphs records the whole
  /// step.
  void check_graphs(const Recipe& recipe, const Run& run) const {
    if (!run.device().is_cuda() || (mode_ != "reduce-overhead" && mode_ != "max-autotune")) return;
    for (const Edit& wrap : recipe.schedule.wraps())
      if (wrap.phase == Phase::capture) return;
    throw Error(ErrorCode::missing_value,
                "compile: mode = \"" + mode_ + "\" needs CUDA graphs, but no stacked plugin records them",
                "stack the plugin cuda_graphs, or use mode \"default\" or \"max-autotune-no-cudagraphs\"");
  }

  /// The trace of a unit for inputs of one signature, and everything that its code depends on.
  struct Traced {
    UnitGraph graph;
    Request request;
    std::string key;
  };

  /// A compiled place of the model, and its code so far. The code of the last call is tried first.
  struct Site {
    UnitFunction eager;
    const Unit* unit = nullptr;
    Signature last = {};
    const CompiledUnit* compiled = nullptr;
    std::map<Signature, const CompiledUnit*> all = {};
    std::map<Signature, Traced> ahead = {};  ///< traced before its first call
    std::string key = {};                    ///< of its first call
    bool stays_eager = false;
    bool x_has_gradient = false;  ///< in training
  };

  Tensor run(Site& site, const Tensor& given, const Batch& batch) {
    if (site.stays_eager) return site.eager(given, batch);
    // The forward is the same with and without a gradient, so an evaluation uses the code of training.
    if (!evaluating()) site.x_has_gradient = given.requires_grad();
    const Tensor x = evaluating() ? given.detach().requires_grad_(site.x_has_gradient) : given;
    const Tensors inputs = unit_inputs(*site.unit, x, batch);
    Signature signature = signature_of(inputs, batch);
    if (signature != site.last) {
      auto& found = site.all[signature];
      if (found == nullptr) found = make(site, signature, x, batch);
      if (site.stays_eager) return site.eager(given, batch);
      site.compiled = found;
      site.last = std::move(signature);
    }
    return (*site.compiled)(inputs);
  }

  const CompiledUnit* make(Site& site, const Signature& signature, const Tensor& x, const Batch& batch) {
    const Unit& unit = *site.unit;
    const auto guard = run_->compiling(unit.path);
    const auto start = std::chrono::steady_clock::now();
    if (site.all.size() > 1)
      run_->note("compile: " + unit.path + " was recompiled at step " + std::to_string(run_->step()) +
                 ": the shapes, types or names of its inputs changed");
    const auto known = site.ahead.extract(signature);
    const Traced traced = known ? Traced{known.mapped().graph, request_of(site, x, batch), known.mapped().key}
                                : trace(site, x, batch);
    if (!known) compile_with_the_next(site, traced, x, batch);
    const CompiledUnit* compiled = nullptr;
    const bool first = site.key.empty();
    if (first) site.key = traced.key;
    if (first && auto_) {
      choose(site, traced, x, batch);
      site.stays_eager = !choices_.at(traced.key).takes_compiled();
    }
    if (!site.stays_eager) compiled = &code_of(site, traced, x, batch);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return compiled;
  }

  const CompiledUnit& code_of(Site& site, const Traced& traced, const Tensor& x, const Batch& batch) {
    auto& compiled = units_[traced.key];
    if (!compiled) {
      if (!cache_->holds(traced.key)) cache_->compile({{traced.key, &traced.graph, &traced.request}});
      compiled = std::make_unique<CompiledUnit>(cache_->folder_of(traced.key));
      if (self_check_)
        worst_ = std::max(worst_, self_check(*compiled, traced.graph, site.eager, *site.unit, x, batch));
    }
    return *compiled;
  }

  /// Every rank that has this unit takes part, and all make the same choice. It is stored, so that later runs
  /// compute the same.
  void choose(Site& site, const Traced& traced, const Tensor& x, const Batch& batch) {
    if (choices_.contains(traced.key)) return;
    const auto file = cache_->choice_file(traced.key, run_->spec());
    const auto stored = read_choice(file);
    auto choice = of_first_rank(stored, *run_);
    if (!choice)
      choice =
          of_first_rank(measure(code_of(site, traced, x, batch), site.eager, *site.unit, x, batch), *run_);
    if (!stored) write_choice(file, *choice);
    choices_[traced.key] = *choice;
    if (!choice->takes_compiled()) units_.erase(traced.key);
  }

  /// "compile: model.layers.0 and 3 units like it are eager: compiled, a forward and backward takes 1.25x the
  /// time of eager code".
  std::string text_of(const std::string& key, const Choice& choice) const {
    std::string text;
    int64_t alike = -1;
    for (const Site& site : sites_)
      if (site.key == key && ++alike == 0) text = "compile: " + site.unit->path;
    if (alike > 0) text += " and " + std::to_string(alike) + (alike == 1 ? " unit" : " units") + " like it";
    std::array<char, 32> ratio{};
    std::snprintf(ratio.data(), ratio.size(), "%.3g", choice.compiled / choice.eager);
    const std::string form = choice.takes_compiled() ? "compiled" : "eager";
    return text + (alike > 0 ? " are " : " is ") + form + ": compiled, a forward and backward takes " +
           ratio.data() + "x the time of eager code";
  }

  Request request_of(const Site& site, const Tensor& x, const Batch& batch) const {
    return {mode_of_code(mode_), activations_, enabled_attention_kernels(), at::get_num_threads(),
            unit_inputs(*site.unit, x, batch)};
  }

  Traced trace(const Site& site, const Tensor& x, const Batch& batch) const {
    Traced traced{trace_unit(site.eager, *site.unit, x, batch), request_of(site, x, batch), {}};
    traced.key = Cache::key_of(traced.graph, traced.request);
    return traced;
  }

  /// One process compiles a unit and the later units, if the cache lacks them. One Python process for each
  /// unit would import torch each time and leave cores idle. All units are traced even if the cache has them,
  /// because a trace may have sums over ranks, and the caches of ranks may differ.
  void compile_with_the_next(Site& first, const Traced& traced, const Tensor& x, const Batch& batch) {
    std::vector<Traced*> others;
    Tensor next = next_input(first, x, traced);
    bool reached = false;
    for (Site& site : sites_) {
      if (reached && is_part(*site.unit) == is_part(*first.unit) && has_values(*site.unit)) {
        try {
          Signature signature = signature_of(unit_inputs(*site.unit, next, batch), batch);
          if (site.all.contains(signature)) continue;
          Traced& other = site.ahead[std::move(signature)] = trace(site, next, batch);
          next = next_input(site, next, other);
          others.push_back(&other);
        } catch (const Error&) {  // the unit cannot be compiled; its call reports the reason
          break;
        } catch (const c10::Error& e) {  // the inputs of its call may differ
          run_->note("compile: " + site.unit->path + " is compiled at its first call, not ahead: " +
                     first_line_of(e.what_without_backtrace()));
          break;
        }
      }
      reached = reached || &site == &first;
    }
    std::vector<Job> jobs;
    const auto add = [&](const Traced& unit) {
      if (!cache_->holds(unit.key)) jobs.push_back({unit.key, &unit.graph, &unit.request});
    };
    add(traced);
    for (const Traced* other : others) add(*other);
    if (!jobs.empty()) cache_->compile(jobs);
    for (Traced* other : others) {
      other->request.inputs.clear();
      other->graph.output.reset();
    }
  }

  static bool is_part(const Unit& unit) {
    return unit.role == UnitRole::attention || unit.role == UnitRole::mlp;
  }

  /// Parameters that are sharded by unit exist only during the unit's call.
  static bool has_values(const Unit& unit) {
    const auto has_value = [](const Tensor& tensor) {
      return tensor.defined() && tensor.storage().nbytes() >= tensor.nbytes();
    };
    return std::ranges::all_of(unit.params(), [&](const Param* param) {
      return param->codec ? std::ranges::all_of(param->stored, has_value) : has_value(param->leaf);
    });
  }

  /// The input of the next unit, as far as its code depends on it. Each part of a block reads the output of a
  /// norm. A block or the head reads the output of the unit before it.
  static Tensor next_input(const Site& site, const Tensor& x, const Traced& traced) {
    const Tensor& output = traced.graph.output;
    if (!is_part(*site.unit)) return output;
    return x.detach().requires_grad_(x.requires_grad() || output.requires_grad());
  }

  std::string mode_;
  bool self_check_ = true;
  std::vector<std::string> chosen_;
  bool auto_ = false;
  std::set<int64_t> with_experts_;  ///< layers
  std::set<const Unit*> experts_;   ///< of mixtures, each an MLP
  std::unique_ptr<Cache> cache_;
  Run* run_ = nullptr;
  Json activations_;
  std::map<std::string, std::unique_ptr<CompiledUnit>> units_;
  std::deque<Site> sites_;  ///< in order of the forward
  std::map<std::string, Choice> choices_;
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
    {"name": "units", "type": "list", "default": [], "choices": ["block", "attention", "mlp", "head", "auto"],
     "doc": "units to compile; empty: each block, and the head unless a plugin has a kernel for the loss; with auto, only the units that are faster compiled"},
    {"name": "cache", "type": "string", "default": "",
     "doc": "folder for compiled code; default: $OPTRUSH_CACHE, $XDG_CACHE_HOME or ~/.cache"}
  ]
})json");
