#include "plugin_check/stack_check.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "analysis/gate/gate.h"
#include "base/number_text.h"
#include "base/peer_error.h"
#include "data/batches.h"
#include "params/init.h"
#include "plugin_check/library_state.h"
#include "plugin_check/opening.h"
#include "plugin_check/second_rank.h"
#include "spec/spec_json.h"
#include "train/run_setup.h"
#include "train/trainer.h"

namespace optrush {
namespace {
/// Copies the gradients of the first step after all other edits of them. A gradient that is freed during the
/// backward is copied before its user gets it.
class GradientRecorder {
 public:
  void edit(Recipe& recipe) {
    recipe.on(Event::materialized, Phase::base, [this](Run& run) {
      run_ = &run;
      run.data_parallel().on_ready([this](Shard& shard) {
        if (run_->step() == 0) record({&shard, 1});
      });
    });
    recipe.gradients.wrap(Phase::measure,
                          [this](auto inner) {
                            return [this, inner](Gradients& gradients, Update& update) {
                              inner(gradients, update);
                              if (run_->step() == 0) record(gradients.shards());
                            };
                          },
                          {.trace = Trace::aten, .capturable = true, .offers = {feature::fp64}});
  }
  std::map<std::string, Tensor> take() { return std::move(gradients_); }

 private:
  void record(std::span<Shard> shards) {
    const at::NoGradGuard no_grad;
    for (const Shard& shard : shards)
      for (const Segment& segment : shard.segments) {
        if (!shard.grad.defined()) continue;
        const Tensor flat = Shard::part(shard.grad, segment);
        gradients_[segment.param->name] = flat.to(at::kCPU, at::kDouble).clone();
      }
  }

  Run* run_ = nullptr;
  std::map<std::string, Tensor> gradients_;
};

/// Uses the initial values of a run in fp32 for every type, because random draws depend on the type.
void start_as_in_fp32(Recipe& recipe) {
  recipe.on(Event::materialized, Phase::base, [](Run& run) {
    const at::NoGradGuard no_grad;
    const auto value_of = [&](const Param& param, const Layout& layout) {
      Param narrow = param;
      narrow.dtype = at::kFloat;
      return layout.take(initial_value(narrow, run.spec().train.seed)).to(at::kDouble);
    };
    for (Shard& shard : run.data_parallel().shards())
      for (const Segment& segment : shard.segments)
        if (shard.data.scalar_type() == at::kDouble)
          Shard::part(shard.data, segment).copy_(value_of(*segment.param, segment.layout).flatten());
    for (Param* param : run.params().all())
      if (!param->trainable && param->leaf.defined() && param->leaf.scalar_type() == at::kDouble)
        run.data_parallel().store(*param, {value_of(*param, param->layout).to(run.device())});
  });
}

TrainingCurve curve_of(Session& session, GradientRecorder& recorder) {
  auto [losses, norms] = train(session, [](const Json&) {}).curve();
  session.recipe().fire(Event::finished, session);
  return {.losses = std::move(losses), .norms = std::move(norms), .gradients = recorder.take()};
}

/// Largest allowed relative differences of losses, norms and gradients.
struct Tolerance {
  double loss = 0, norm = 0, gradient = 0;
  /// For norms after the first update. Updates that follow the sign of a gradient amplify small differences.
  double later_norm = 0;
};

/// Losses have the tolerances of the gate. Gradients are also compared, because AdamW's updates do not depend
/// on their scale. In low precision a matrix shows individual roundings, which a loss averages over all
/// tokens.
Tolerance tolerance_for(Effect effect) {
  switch (effect) {
    case Effect::exact:
      return {};
    case Effect::precision:
      return {allowance_of(effect, Arithmetic::reduced).loss, 0.1, 0.2, 0.5};
    default: {
      const double all = allowance_of(effect, Arithmetic::fp32).loss;
      return {all, all, all, all};
    }
  }
}

/// Returns the worst relative difference; throws an Error if it is too large.
double compare_curve(const std::string& what, const std::vector<double>& got,
                     const std::vector<double>& expected, double first, double later) {
  if (got.size() != expected.size())
    throw Error(ErrorCode::wrong_result, "the reference has a different number of values of " + what);
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    const double difference =
        got[i] == expected[i] ? 0 : std::abs(got[i] - expected[i]) / std::abs(expected[i]);
    worst = std::max(worst, difference);
    const double tolerance = i == 0 ? first : later;
    if (difference <= tolerance) continue;
    throw Error(ErrorCode::wrong_result, what + " of step " + std::to_string(i) + " is " +
                                             Json(got[i]).dump() + ", but the reference has " +
                                             Json(expected[i]).dump() + ": " + scientific(difference) +
                                             " difference, " + scientific(tolerance) + " allowed");
  }
  return worst;
}

/// The same for the L2 norm of each parameter's gradient. Parameters that only one side has are compared by
/// other cases.
double compare_gradients(const std::map<std::string, Tensor>& got,
                         const std::map<std::string, Tensor>& expected, double tolerance) {
  double total = 0, worst = 0;
  for (const auto& [name, gradient] : expected) total += gradient.square().sum().item<double>();
  for (const auto& [name, gradient] : got) {
    const auto other = expected.find(name);
    if (other == expected.end() || other->second.numel() != gradient.numel()) continue;
    const double apart = (gradient - other->second).norm().item<double>();
    // A small gradient contains rounding errors of the large ones.
    const double scale = std::max(other->second.norm().item<double>(), 1e-3 * std::sqrt(total));
    if (apart > 0) worst = std::max(worst, apart / scale);
    if (apart == 0 || apart <= tolerance * scale) continue;
    throw Error(ErrorCode::wrong_result, "the gradient of " + name + " is " + scientific(apart / scale) +
                                             " of its norm away from the reference, " +
                                             scientific(tolerance) + " allowed");
  }
  return worst;
}

/// Returns the worst differences; throws an Error if they are too large.
std::string compare(const TrainingCurve& got, const TrainingCurve& expected, const Tolerance& tolerance) {
  const double losses =
      compare_curve("the loss", got.losses, expected.losses, tolerance.loss, tolerance.loss);
  const double norms =
      compare_curve("the gradient norm", got.norms, expected.norms, tolerance.norm, tolerance.later_norm);
  const double gradients = compare_gradients(got.gradients, expected.gradients, tolerance.gradient);
  return "differences from the reference: losses " + scientific(losses) + ", gradient norms " +
         scientific(norms) + ", gradients " + scientific(gradients);
}

bool agree(const TrainingCurve& a, const TrainingCurve& b, const Tolerance& tolerance) {
  try {
    compare(a, b, tolerance);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The runs to compare, and the effect that decides the tolerance.
StackCheck::Comparison comparison_of(const CheckCase& c, const Catalogue& catalogue) {
  StackCheck::Comparison result{c.spec, c.spec};
  result.plain.plugins.clear();
  for (const PluginUse& use : c.spec.plugins) {
    const Effect effect = catalogue.at(use.name).effect_with(use.options);
    if (effect == Effect::model)
      result.plain.plugins.push_back(use);
    else
      result.effect = std::max(result.effect, effect == Effect::batch ? Effect::rounding : effect);
  }
  return result;
}
/// Gives both runs of a comparison the same sequences per step.
void use_equal_batches(StackCheck::Comparison& comparison, const RunSpec& spec, int64_t of_subject,
                       int64_t of_plain) {
  const int64_t product = spec.train.micro_batch * of_plain;
  if (product % of_subject != 0)
    throw Skip(ErrorCode::unsupported,
               "a batch of " + std::to_string(of_subject) + " sequences per step cannot be made from the " +
                   std::to_string(of_plain) + " sequences of the reference",
               "in \"check\" of its description, give options that double or quadruple the batch");
  comparison.subject.train.micro_batch = product / of_subject;
}
}  // namespace

const StackCheck::Reference& StackCheck::reference(const RunSpec& spec) {
  const auto [place, fresh] = references_.try_emplace(to_json(spec).dump());
  Reference& found = place->second;
  if (!fresh) return found;
  const auto train_once = [&] {
    const LibraryState kept;
    GradientRecorder recorder;
    const auto run = open_run(spec, context_, [&](Recipe& recipe) {
      recorder.edit(recipe);
      start_as_in_fp32(recipe);
    });
    found.sequences = global_batch(run->spec().train, run->mesh());
    const DrawObserver draws;
    TrainingCurve curve = curve_of(*run, recorder);
    found.draws = draws.drew();
    return curve;
  };
  try {
    found.curve = train_once();
    // On a GPU, atomic additions sum in any order.
    if (!context_.device.is_cpu()) {
      const TrainingCurve again = train_once(), &first = found.curve;
      found.reproducible = again.losses == first.losses && again.norms == first.norms;
    }
  } catch (...) {
    references_.erase(place);
    throw;
  }
  return found;
}

const StackCheck::Reference& StackCheck::in_double(const RunSpec& spec) {
  try {
    RunSpec wide = spec;
    wide.train.dtype = "fp64";
    return reference(wide);
  } catch (const Error&) {  // it supports only its own types: then a second run must equal the first
    return reference(spec);
  }
}

const StackCheck::Reference* StackCheck::in_equal_micro_batches(const Comparison& comparison,
                                                                int64_t accumulation) {
  RunSpec plain = comparison.plain;
  if (accumulation == 1 || plain.train.accumulation == accumulation) return nullptr;
  plain.train.micro_batch = comparison.subject.train.micro_batch;
  plain.train.accumulation = accumulation;
  return &reference(plain);
}

std::string StackCheck::run(const CheckCase& c) {
  Comparison comparison = comparison_of(c, context_.catalogue);
  int64_t sequences = 0, accumulation = 1;
  {
    const LibraryState kept;
    const auto opened = open_case(c, c.spec, context_);
    sequences = global_batch(opened->spec().train, opened->mesh());
    accumulation = opened->spec().train.accumulation;
  }
  const bool only_models = comparison.plain.plugins.size() == c.spec.plugins.size();
  if (only_models) comparison.effect = Effect::rounding;
  const Reference& plain = only_models ? in_double(comparison.plain) : reference(comparison.plain);
  use_equal_batches(comparison, c.spec, sequences, plain.sequences);

  GradientRecorder recorder;
  const auto run = open_case(c, comparison.subject, context_, [&](Recipe& recipe) { recorder.edit(recipe); });
  const TrainingCurve curve = curve_of(*run, recorder);
  if (c.without_values) return {};
  if (comparison.effect == Effect::exact && !plain.reproducible) comparison.effect = Effect::rounding;
  const auto compared_with = [&](const Reference& reference) {
    return compare(curve, reference.curve, tolerance_for(comparison.effect));
  };
  try {
    return compared_with(plain);
  } catch (const Error&) {
    if (const auto alike = in_equal_micro_batches(comparison, accumulation))
      if (!agree(alike->curve, plain.curve, tolerance_for(comparison.effect)))
        return compared_with(*alike) +
               "; the reference accumulated as well, because it draws random numbers for each micro-batch";
    // Random numbers drawn in the type of the input differ between types.
    const bool in_another_type = only_models || comparison.effect == Effect::precision;
    if (!in_another_type || !reference(comparison.plain).draws) throw;
  }
  comparison.effect = Effect::rounding;
  return compared_with(reference(only_models ? comparison.plain : comparison.subject)) +
         "; its random numbers depend on its type, so it was compared with a second run of itself";
}

std::string StackCheck::run_on_two_ranks(const CheckCase& c) {
  Comparison comparison = comparison_of(c, context_.catalogue);
  comparison.plain.train.world_size = 1;
  const Reference& plain = reference(comparison.plain);
  {
    const LibraryState kept;
    const auto planned = RunSetup::open(c.spec, context_.catalogue, context_.device, Ranks::planned(0, 2));
    planned->connect();
    use_equal_batches(comparison, c.spec, global_batch(planned->spec().train, planned->mesh()),
                      plain.sequences);
  }
  const SecondRank other(comparison.subject);
  try {
    const auto run = RunSetup::open(comparison.subject, context_.catalogue, context_.device, other.first());
    run->connect();
    run->declare();
    run->make_ready();
    GradientRecorder none;  // ranks have parts of gradients
    return compare(curve_of(*run, none), plain.curve, tolerance_for(comparison.effect));
  } catch (const PeerError& e) {
    const std::string cause = other.failure();
    throw Error(ErrorCode::wrong_result, cause.empty() ? e.what() : "rank 1: " + cause);
  }
}
}  // namespace optrush
