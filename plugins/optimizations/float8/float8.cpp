// Linears of the blocks in fp8 (arXiv:2209.05433): x, W and the gradient of the output are scaled, rounded
// to 8 bits and multiplied by matrix units that are twice as fast as in bf16. Sums are in fp32, results in
// bf16. Scales are dynamic: they come from the tensor at each use. With `scales = "delayed"`, x and gradients
// have scales from the largest values of earlier steps. The matrix is quantized once per step. x is
// kept for the backward in one byte per number. The recipes differ in the numbers that share a scale:
// - tensorwise: a tensor. x and W are in e4m3 (3 bits of fraction), gradients in e5m2 (2 bits, more range).
// - rowwise: a row; all in e4m3, as the next. An outlier affects only its row, so results are nearer to bf16.
//   But each tensor is quantized along both axes, which takes more time.
// - blockwise (DeepSeek-V3, arXiv:2412.19437, section 3.3): 128 numbers along the sum of a product, and
//   128 x 128 numbers of W. Scales are powers of two, as for rowwise, so they round nothing.
// Options leave blocks, linears or the last steps in high precision.
//
// The head is unchanged, because its loss reads small differences of large logits. So are linears whose
// widths on this rank are not multiples of 16, or of 128 with blockwise. It pays with wide layers and many
// tokens, where matmuls are most of the step and a compiler fuses quantization (a pass over each operand). It
// does not pay with small layers, and never on a CPU: no CPU multiplies fp8.

#include <ATen/Functions.h>

#include <algorithm>
#include <deque>
#include <map>

#include "kernel_parts/compute_capability.h"
#include "kernel_parts/rounding.h"
#include "linear_function.h"
#include "linear_groups/groups.h"
#include "optrush/gpu_kernel.h"
#include "optrush/plugin.h"
#include "past_scales.h"
#include "readers.h"
#include "selection.h"
#include "switch_back.h"

namespace {
using namespace optrush;
using namespace optrush::float8;

constexpr int kOldestGpu = 89, kGpuOfGroups = 90;

Formats formats_of(const Options& options) {
  Formats formats;
  const std::string recipe = options.string("recipe");
  if (recipe == "rowwise")
    formats = {.inputs = Scaling::rowwise, .weights = Scaling::rowwise, .gradients = at::kFloat8_e4m3fn};
  if (recipe == "blockwise")
    formats = {.inputs = Scaling::groupwise, .weights = Scaling::blockwise, .gradients = at::kFloat8_e4m3fn};
  const std::string fast_sums = options.string("fast_sums");
  if (recipe == "blockwise" && fast_sums == "all")
    throw Error(
        ErrorCode::invalid_value,
        "float8: fast_sums = \"all\" has no effect on recipe = \"blockwise\", whose sums are always exact",
        "leave out fast_sums, or use another recipe");
  if (fast_sums != "forward") formats.fast_sums = fast_sums == "all" ? FastSums::all : FastSums::none;
  return formats;
}

/// Whether scales come from earlier steps.
bool delays(const Options& options) {
  if (options.string("scales") != "delayed") return false;
  if (options.string("recipe") != "tensorwise")
    throw Error(ErrorCode::invalid_value,
                "float8: scales = \"delayed\" is for recipe = \"tensorwise\", not \"" +
                    options.string("recipe") + "\", whose kernel reads each matrix once",
                "leave out scales, or the recipe");
  return true;
}

void add_linears(const Unit& unit, std::vector<const Module*>& linears) {
  for (const Module& module : unit.modules)
    if (module.role == "linear") linears.push_back(&module);
  for (const auto& child : unit.children) add_linears(*child, linears);
}

class Float8 final : public Plugin {
 public:
  void apply(optrush::Recipe& recipe, const Options& options) override {
    if (recipe.spec().train.dtype == "fp64")
      throw Error("float8 supports fp32 and bf16 parameters, but train.dtype is fp64",
                  "leave train.dtype at fp32");
    formats_ = formats_of(options);
    selection_ = Selection(options);
    switch_back_ = SwitchBack(recipe.spec(), options.number("until"));
    delayed_ = delays(options);
    if (delayed_) {
      recipe.keep("largest values", [this] { return past_.largest(); });
      recipe.on(Event::step_begin, Phase::base, [this](Run& run) { past_.begin_step(run); });
      recipe.on(Event::step_end, Phase::base, [this](Run& run) { past_.end_step(run); });
      recipe.ops.add_norm.wrap(
          Phase::base,
          [this](Ops::AddNorm::Fn inner, const Module& norm) { return with_offer(std::move(inner), norm); },
          {.trace = Trace::aten, .capturable = true});
    }
    recipe.ops.linear.replace_each([this](const Module& module) { return replacement(module); },
                                   {.trace = Trace::pair, .capturable = true});
    recipe.on(Event::meta_initialized, Phase::base, [this](Run& run) { selection_.check(run); });
    recipe.on(Event::materialized, Phase::base, [this, &recipe](Run& run) { find_groups(recipe, run); });
    recipe.on(Event::ready, Phase::base, [this, &recipe](Run& run) {
      check(run);
      refuse_compiler(recipe);
      switch_back_.check(recipe, run);
    });
    recipe.on(Event::step_end, Phase::base, [this](Run&) {
      for (Group& group : groups_) group.weights.drop();
    });
    drop_after_units(recipe, [this](const Unit& unit) { return parts_of(unit); });
  }

 private:
  /// Linears that share an input, and the parts that one call makes for all of them. Its address is stable.
  struct Group {
    std::vector<const Param*> params;
    StepWeights weights;
    Differentiable pair;
    PartsOfInput parts;
    ScalesOfInput scales;
    bool trains = false;
  };
  struct Place {
    Group* group = nullptr;
    size_t linear = 0;
  };

  bool fits(const Module& module) const {
    const auto here = module.params.at(0)->layout.box_shape();  // of this rank
    return here[0] % formats_.multiple() == 0 && here[1] % formats_.multiple() == 0;
  }

  void add_group(const LinearGroup& linears) {
    Group& group = groups_.emplace_back();
    std::vector<bool> trained;
    for (size_t i = 0; i < linears.size(); ++i) {
      const Param* param = linears[i]->params.at(0);
      group.trains = group.trains || param->trainable;
      group.params.push_back(param);
      trained.push_back(param->trainable);
      places_[linears[i]] = {&group, i};
    }
    if (delayed_) group.scales = {&past_, numbers_.at(linears.front()), after_outputs(linears)};
    trains_ = trains_ || group.trains;
    group.pair = make_linear_function(formats_, &group.weights, std::move(trained), group.scales);
  }

  /// Numbers the inputs of all linears of the model, so that a tensor has the same number on each rank.
  void number_inputs(Run& run) {
    std::vector<const Module*> linears;
    for (const auto& unit : run.units()) add_linears(*unit, linears);
    for (const Module* linear : linears) numbers_[linear] = kTensorsOfInput * std::ssize(numbers_);
    past_.make(kTensorsOfInput * std::ssize(linears), run);
  }

  AfterOutputs after_outputs(const LinearGroup& linears) const {
    const Module* reader = readers_.after(*linears.front());
    if (reader == nullptr || linears.size() != 2) return {};
    AfterOutputs after{.read_once = true, .product_both_ways = reader->params.at(0)->trainable};
    if (readers_.product_read_once() && selection_.has(*reader) && fits(*reader))
      after.product = numbers_.at(reader);
    return after;
  }

  /// Offers on the input of a norm that its result is written in 8 bits, if only linears in fp8 read it.
  Ops::AddNorm::Fn with_offer(Ops::AddNorm::Fn inner, const Module& norm) {
    const Group* group = group_of(readers_.of_norm(norm));
    if (group == nullptr) return inner;
    return
        [this, group, inner = std::move(inner)](const Tensor& x, const Tensor& delta, const NormArgs& args) {
          if (!switch_back_.is_past(run_->step())) offer_input(x, group->scales, group->trains);
          auto out = inner(x, delta, args);
          fused::withdraw_rounding(x);  // x may be the input of the next norm
          return out;
        };
  }

  /// The group that has all these linears and no other; null if there is none.
  const Group* group_of(const LinearGroup& linears) const {
    const Group* group = nullptr;
    for (const Module* linear : linears) {
      const auto found = places_.find(linear);
      if (found == places_.end() || found->second.group->params.size() != linears.size()) return nullptr;
      group = found->second.group;
    }
    return group;
  }

  void find_groups(const optrush::Recipe& recipe, Run& run) {
    run_ = &run;
    if (delayed_) {
      number_inputs(run);
      readers_ = Readers(recipe, run);
    }
    for (LinearGroup linears : linear_groups(run.units())) {
      std::erase_if(linears,
                    [this](const Module* linear) { return !selection_.has(*linear) || !fits(*linear); });
      if (!linears.empty()) add_group(linears);
    }
  }

  /// The parts of a unit's linears that share an input. Null if there are none.
  PartsOfInput* parts_of(const Unit& unit) {
    for (const Module& module : unit.modules)
      if (const auto found = places_.find(&module);
          found != places_.end() && found->second.group->params.size() > 1)
        return &found->second.group->parts;
    return nullptr;
  }

  Ops::Linear::Fn replacement(const Module& module) {
    if (!selection_.has(module)) return {};
    if (!fits(module)) {
      ++odd_;
      return {};
    }
    if (!places_.contains(&module)) add_group({&module});
    return [this, place = places_.at(&module), weight = module.params.at(0)](const Tensor& x) {
      if (switch_back_.is_past(run_->step())) return at::linear(x, weight->compute_value());
      Group& group = *place.group;
      const auto type = autocast_type(x.device().type()).value_or(x.scalar_type());
      const auto multiply_all = [&] {
        Tensors inputs = {x};
        for (const Param* param : group.params) inputs.push_back(param->value());
        return call(group.pair, std::move(inputs));
      };
      return group.parts.take(place.linear, x, multiply_all).to(type);
    };
  }

  void check(Run& run) const {
    const std::string multiple = std::to_string(formats_.multiple());
    if (groups_.empty() && odd_ > 0)
      throw Error(
          "float8 does not apply: no selected linear layer has widths that are multiples of " + multiple,
          "remove the rung, or use such widths");
    if (odd_ > 0)
      run.note("float8: " + std::to_string(odd_) +
               " linear layers are unchanged, because their widths are not multiples of " + multiple);
    const TrainSpec& train = run.spec().train;
    const int64_t tokens = train.micro_batch * train.seq_len / run.mesh().size(run.mesh().sequence());
    if (trains_ && tokens % formats_.multiple() != 0)
      throw Error("float8 needs a multiple of " + multiple +
                      " tokens per micro-batch on a rank, but there are " + std::to_string(tokens),
                  "change micro_batch or seq_len");
    if (form_of(run.device()) == at::kCUDA) check_gpu();
  }

  void refuse_compiler(const optrush::Recipe& recipe) const {
    if (delayed_ && std::ranges::any_of(recipe.unit.wraps(),
                                        [](const Edit& wrap) { return wrap.phase == Phase::compile; }))
      throw Error(
          "float8: scales = \"delayed\" needs the kernels of this plugin, but compiled units have others",
          "remove 'compile' from the stack, or leave out scales");
  }

  void check_gpu() const {
    const int gpu = fused::compute_capability();
    if (gpu < kOldestGpu)
      throw Skip("float8 needs a GPU of compute capability 8.9 or newer; this GPU is " + gpu_architecture());
    if (in_groups(formats_.inputs) && gpu != kGpuOfGroups)
      throw Skip("float8: recipe = \"blockwise\" needs a GPU of compute capability 9.0; this GPU is " +
                     gpu_architecture(),
                 "use recipe = \"rowwise\"");
  }

  static constexpr int64_t kTensorsOfInput = 2;  ///< x, and the gradients of the outputs

  Formats formats_;
  bool delayed_ = false;
  PastScales past_;
  std::map<const Module*, int64_t> numbers_;  ///< in past_
  Readers readers_;
  Selection selection_;
  SwitchBack switch_back_;
  Run* run_ = nullptr;
  std::deque<Group> groups_;
  std::map<const Module*, Place> places_;
  int64_t odd_ = 0;
  bool trains_ = false;
};
}  // namespace

OPTRUSH_PLUGIN(Float8, R"json({
  "name": "float8", "version": "0.1.0", "kind": "optimization", "effect": "precision",
  "summary": "linear layers of the blocks computed in 8-bit floating point, forward and backward",
  "conflicts": ["fused_projections", "grouped_experts", "nf4"],
  "check": [{}, {"options": {"recipe": "rowwise"}}, {"options": {"recipe": "blockwise"}, "model": "wide"},
            {"options": {"until": 0.5}}, {"options": {"scales": "delayed"}}],
  "doc": "On a GPU it needs compute capability 8.9 (Ada, Hopper or newer); a CPU computes the same numbers, slowly.",
  "options": [
    {"name": "recipe", "type": "string", "default": "tensorwise", "choices": ["tensorwise", "rowwise", "blockwise"],
     "doc": "tensorwise: one scale per tensor; rowwise: one per row, which is slower and more accurate; blockwise: one per 128 numbers of x and of gradients, and per 128 x 128 block of W, on Hopper"},
    {"name": "scales", "type": "string", "default": "dynamic", "choices": ["dynamic", "delayed"],
     "doc": "tensorwise: the scale of x and of gradients from the tensor itself, or from its largest values of the last 16 steps, so that a GPU reads the tensor once"},
    {"name": "fast_sums", "type": "string", "default": "forward", "choices": ["none", "forward", "all"],
     "doc": "products whose sums a GPU accumulates in fewer bits, which is faster: all includes gradients; a CPU computes the same numbers for each"},
    {"name": "skip_first", "type": "integer", "default": 0, "min": 0, "max": 1000,
     "doc": "first blocks whose linears are unchanged"},
    {"name": "skip_last", "type": "integer", "default": 0, "min": 0, "max": 1000,
     "doc": "last blocks whose linears are unchanged"},
    {"name": "linears", "type": "list", "default": [],
     "doc": "linear layers in fp8, by their paths or the ends of these, such as q_proj; empty: all of the blocks"},
    {"name": "until", "type": "number", "default": 1, "min": 0, "max": 1,
     "doc": "fraction of the run's steps, with warm-up, after which linears are computed without fp8"}
  ]
})json");
