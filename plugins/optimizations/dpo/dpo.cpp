// Direct preference optimization (arXiv:2305.18290). The data are pairs of answers to a prompt: the chosen
// answer, then the rejected one. p is the probability of an answer under the model, and p_ref its probability
// under the reference. The margin of a pair is
//   m = (log p(chosen) - log p_ref(chosen)) - (log p(rejected) - log p_ref(rejected)),
// and its loss is -log sigmoid(beta m). `label_smoothing` s assumes a wrong label with probability s: -(1
// - s) log sigmoid(beta m) - s log sigmoid(-beta m). The loss of a step is the mean over its pairs.
//
// The reference is the model with which the run begins. A new adapter changes nothing, so the reference is
// the model without it, which takes no memory. If the model itself is trained, or the run begins with a saved
// state, which may have an adapter, the reference is a copy of the first values of all that is trained (a
// rank has its shards of it). The copy and the current values are exchanged during the reference's forward.
// Each micro-batch costs one more forward, without gradients. The log-probability of an answer is minus the
// sum of the cross entropies of its row. So this loss works with every form of the head's loss, also with a
// fused one or one in parts of the vocabulary.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "optrush/advanced/data_parallel.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;

class Dpo final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    if (recipe.spec().data.kind != "preferences")
      throw Skip(ErrorCode::unsupported,
                 "dpo trains on preference pairs, but the data are of kind '" + recipe.spec().data.kind + "'",
                 "set data = rush.preferences(...) in the experiment, or remove the rung");
    const ValidateSpec& validate = recipe.spec().validate;
    if (validate.every > 0 && validate.data.kind != "held_out" && validate.data.kind != "preferences")
      throw Error(
          "dpo validates on preference pairs, but validate.data is of kind '" + validate.data.kind + "'",
          "leave out validate.data to hold out pairs of the training data, or give rush.preferences(...)");
    beta_ = options.number("beta");
    label_smoothing_ = options.number("label_smoothing");
    recipe.on(Event::meta_initialized, Phase::precision, [this, &recipe](Run& run) {
      if (run.modules("embedding").empty())
        throw Skip(ErrorCode::unsupported,
                   "dpo compares answers made of tokens, but this model does not read tokens",
                   "remove the rung");
      check_whole(recipe);
      if (const int64_t rows = run.spec().train.micro_batch; rows % 2 != 0)
        throw Error(
            "train.micro_batch is " + std::to_string(rows) +
                ", but it must be even: the two answers of a pair are two sequences of one micro-batch",
            "use an even train.micro_batch");
      keeps_values_ = trains_model(run) || !run.spec().start.empty();
    });
    // The values are those of `start`. An interrupted run loads its own state later.
    recipe.on(Event::ready, Phase::measure, [this](Run& run) {
      if (keeps_values_) keep_first_values(run);
      run.note("dpo: the reference is " +
               (run.spec().start.empty() ? "the model with its initial weights"
                                         : "the model of the state in '" + run.spec().start + "'") +
               (keeps_values_
                    ? ", kept as a copy of the trained parameters: " + std::to_string(bytes_) + " bytes"
                    : ", computed without the adapter"));
    });
    recipe.schedule.wrap(Phase::gradients, [this](auto inner) { return after_reference(inner); },
                         {.trace = Trace::aten});
    recipe.evaluation.wrap(Phase::gradients,
                           [this](auto inner) {
                             return [this, inner](const Batch& batch) {
                               as_reference([&] { reference_[batch.first_sample] = inner(batch); });
                               return inner(batch);
                             };
                           },
                           {.trace = Trace::aten});
    // Inside the wrap that gathers a unit's parameters, and outside the compiler's wrap, which then compiles
    // only the head.
    recipe.unit.wrap(Phase::checkpoint, [this](auto inner, const Unit& unit) { return on_head(inner, unit); },
                     {.trace = Trace::aten});
    recipe.learn_from("preferences");
    recipe.counter({.name = "accuracy", .per = Per::step, .over_ranks = OverRanks::mean},
                   [this] { return total(accuracy_); });
    recipe.counter({.name = "reward margin", .per = Per::step, .over_ranks = OverRanks::mean},
                   [this] { return total(margin_); });
  }

 private:
  /// Whether any parameter of the model itself is trained, without those that plugins add.
  static bool trains_model(Run& run) {
    std::set<const Param*> added;
    for (const Module* module : run.modules("linear"))
      added.insert(module->params.begin() + (module->bias() == nullptr ? 1 : 2), module->params.end());
    return std::ranges::any_of(
        run.params().all(), [&](const Param* param) { return param->trainable && !added.contains(param); });
  }

  void keep_first_values(Run& run) {
    const at::NoGradGuard no_grad;
    for (const Shard& shard : run.data_parallel().shards()) {
      values_.push_back({shard.data, shard.data.clone()});
      bytes_ += static_cast<int64_t>(shard.data.nbytes());
    }
  }

  static void check_whole(const Recipe& recipe) {
    if (recipe.stages.edited())
      throw Error("dpo does not support pipeline parallelism",
                  "remove the plugin that splits the model into stages");
    if (recipe.mesh.size(recipe.mesh.sequence()) > 1)
      throw Error(
          "dpo does not support sequences that are split over ranks, because it needs the log-probability of "
          "whole answers",
          "use data parallelism instead: ddp or fsdp");
  }

  std::function<void(Step&)> after_reference(std::function<void(Step&)> inner) {
    return [this, inner = std::move(inner)](Step& step) {
      reference_.clear();
      as_reference([&] {
        for (int64_t micro = 0; micro < step.microbatches(); ++micro)
          reference_[step.batch(micro).first_sample] = step.forward(0, micro, {});
      });
      // The counters of a step are means over its micro-batches.
      share_ = 1 / static_cast<double>(step.microbatches());
      inner(step);
    };
  }

  /// Runs forwards that return log-probabilities under the reference.
  void as_reference(const std::function<void()>& forwards) {
    exchange_values();
    {
      const ReferenceScope reference(/*with_adapters=*/keeps_values_);
      forwards();
    }
    exchange_values();
  }

  void exchange_values() {
    const at::NoGradGuard no_grad;
    for (Values& each : values_) {
      const Tensor in_use = each.in_use.clone();
      each.in_use.copy_(each.other);
      each.other.copy_(in_use);
    }
  }

  UnitFunction on_head(UnitFunction inner, const Unit& unit) {
    if (unit.role != UnitRole::head) return inner;
    return [this, inner = std::move(inner)](const Tensor& x_BSD, const Batch& batch) {
      if (!batch.labels.defined()) return inner(x_BSD, batch);
      const Tensor log_p_B = log_probabilities(inner, x_BSD, batch);
      if (of_reference()) return log_p_B;
      // A forward outside of a step, as in a check, has no reference and compares the answers directly.
      const auto reference = reference_.find(batch.first_sample);
      return loss(reference == reference_.end() ? log_p_B : log_p_B - reference->second, batch);
    };
  }

  /// The log-probability of each row's answer. The head is called row by row, because it returns a sum.
  static Tensor log_probabilities(const UnitFunction& head, const Tensor& x_BSD, const Batch& batch) {
    const Tensors x_1SD = x_BSD.split(1), labels_1S = batch.labels.split(1);
    Tensors rows;
    for (size_t row = 0; row < x_1SD.size(); ++row) {
      Batch one = batch;
      one.labels = labels_1S[row];
      rows.push_back(-head(x_1SD[row], one));
    }
    return at::stack(rows);
  }

  /// `gain_B`: log-probability of each answer minus its log-probability under the reference.
  Tensor loss(const Tensor& gain_B, const Batch& batch) {
    const Tensor gain_P2 = gain_B.view({-1, 2});
    const Tensor margin_P = (gain_P2.select(1, 0) - gain_P2.select(1, 1)) * beta_;
    // -log sigmoid(m) is softplus(-m), which has a forecast; it is linear above 50, where that is exact in
    // double.
    const auto softplus = [](const Tensor& m) { return at::softplus(m, 1, /*threshold=*/50); };
    Tensor loss_P = (1 - label_smoothing_) * softplus(-margin_P) + label_smoothing_ * softplus(margin_P);
    if (evaluating()) {  // the last micro-batch may have empty rows
      const Tensor counts_P2 = batch.labels.ge(0).any(1).view({-1, 2});
      loss_P = loss_P * counts_P2.select(1, 0).to(loss_P.scalar_type());
    } else {
      count(margin_P.detach());
    }
    // The step divides by its tokens, but the loss is the mean over pairs.
    return loss_P.sum() * (batch.token_count / (batch.sequence_count / 2));
  }

  void count(const Tensor& margin_P) {
    const at::NoGradGuard no_grad;
    const auto add = [&](Tensor& to, const Tensor& value) {
      to = to.defined() ? to + value * share_ : value * share_;
    };
    add(accuracy_, margin_P.gt(0).to(margin_P.scalar_type()).mean());
    add(margin_, margin_P.mean());
  }
  static double total(const Tensor& counted) { return counted.defined() ? counted.item<double>() : 0; }

  /// Values of a shard: those in use by the model, and the others, which an exchange puts into use.
  struct Values {
    Tensor in_use, other;
  };

  double beta_ = 0, label_smoothing_ = 0, share_ = 1;
  bool keeps_values_ = false;            ///< false: the reference is the model without its adapter
  std::vector<Values> values_;           ///< if kept
  int64_t bytes_ = 0;                    ///< of `values_`
  std::map<int64_t, Tensor> reference_;  ///< of the step's micro-batches, by their first sequence
  Tensor accuracy_, margin_;             ///< sums over steps, on the device
};
}  // namespace

OPTRUSH_PLUGIN(Dpo, R"json({
  "name": "dpo", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "Direct Preference Optimization: trains on pairs of a chosen and a rejected answer",
  "doc": "For data of rush.preferences. The reference is the model with which the run begins: the initial weights, or those of the state that the experiment starts from.",
  "conflicts": ["context_parallel", "pipeline_parallel"],
  "check": [{"with": ["lora"], "data": "preferences"}, {"options": {"label_smoothing": 0.1}, "data": "preferences"}],
  "options": [
    {"name": "beta", "type": "number", "default": 0.1, "min": 0, "max": 100, "doc": "weight of the reward margin; a larger beta keeps the model closer to the reference"},
    {"name": "label_smoothing", "type": "number", "default": 0, "min": 0, "max": 0.5, "doc": "assumed probability that a pair is labelled the wrong way"}
  ]
})json");
