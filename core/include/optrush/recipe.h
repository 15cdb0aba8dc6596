#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "optrush/activations.h"
#include "optrush/counter.h"
#include "optrush/data_parallel.h"
#include "optrush/event.h"
#include "optrush/gradients.h"
#include "optrush/mesh.h"
#include "optrush/ops.h"
#include "optrush/optimizer.h"
#include "optrush/rows.h"
#include "optrush/run.h"
#include "optrush/scopes.h"
#include "optrush/slot.h"
#include "optrush/step.h"

namespace optrush {
/// All that a training run is made of: a record of edits. apply() only records; the host checks, prints and
/// resolves. After apply() it is sealed: an edit is an Error, for nobody would see it.
class Recipe {
 public:
  explicit Recipe(RunSpec);
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;

 private:
  RunSpec spec_;
  Editor editor_;

 public:
  Mesh mesh;
  Ops ops;
  Slot<UnitSignature, Unit> unit;
  /// All micro-batches of a step on this rank, so that the step's token count is known before the first
  /// forward. A function of the step alone, which another thread than the training's may ask ahead of time.
  Slot<std::vector<Batch>(int64_t step)> data;
  /// Which documents lie in which sequence of seq_len positions, where the data is documents; plain: one in
  /// each. `lengths`, in positions, are at most seq_len. Every document is laid once. A pure function: each
  /// rank calls it.
  Slot<Rows(std::span<const int64_t> lengths, int64_t seq_len)> rows;
  /// Which top units form the chunks of this rank; plain: one chunk of all. Parameters have no values yet.
  Slot<std::vector<std::vector<Unit*>>(Run&)> stages;
  Slot<std::unique_ptr<DataParallel>(Run&)> data_parallel;
  /// The gradient that a backward starts from: ones, or a loss scale.
  Slot<Tensor(const Tensor& loss)> loss_gradient;
  /// From final gradients to what the optimizer sees: unscale, then clip.
  Slot<void(Gradients&, Update&)> gradients;
  /// Of these shards: all of the rank's, or those that a wrap leaves to what it wraps.
  Slot<std::unique_ptr<Optimizer>(Run&, std::span<Shard>)> optimizer;
  Slot<void(Step&)> schedule;
  /// A held-out micro-batch's part of the loss, without gradients; plain: the model's forward. Whoever wraps
  /// `schedule` because its loss takes more than that wraps this, too.
  Slot<Tensor(const Batch&)> evaluation;

  const RunSpec& spec() const { return spec_; }
  /// Sets a field of the training spec: set(&TrainSpec::accumulation, 4). Two plugins that disagree are an
  /// Error.
  template <class T>
  void set(T TrainSpec::*field, T value) {
    claim(&(spec_.train.*field), spec_.train.*field == value);
    spec_.train.*field = std::move(value);
  }
  /// What blocks keep for their backward; has one owner, as a field of the training spec.
  void keep_activations(ActivationPolicy);
  const ActivationPolicy& activations() const { return activations_; }
  void scope(Phase, std::function<Scopes::Guard()> enter);
  /// Lives as long as the recipe: wraps that recompute keep a reference.
  const Scopes& scopes() const { return scopes_; }
  /// Handlers of one event run in order of (phase, plugin).
  void on(Event, Phase, std::function<void(Run&)>);

  /// A tensor of the plugin's own that a run which goes on from saved state starts from, the same on every
  /// rank: a loss scale. `view` is asked when state is saved or loaded, which writes to what it returns.
  void keep(std::string name, std::function<Tensor()> view);

  /// What adapter_config.json of PEFT says of the parameters that this plugin adds to the model's, by which
  /// other programs read them (optrush weights). Has one owner.
  void describe_adapter(Json config);
  const Json& adapter() const { return adapter_; }

  /// A number of the plugin's own for the report (result.json, results.csv). `read` is asked between steps,
  /// never in one, from Event::ready on: when the timed steps begin and when they are over, and around what
  /// is run between them. It may wait for the device. What is not finite is an Error with the plugin's name.
  void counter(Counter, std::function<double()> read);

  /// By the host.
  void edit_as(std::string plugin) { editor_.name = std::move(plugin); }
  void seal() { editor_.sealed = true; }
  void fire(Event, Run&) const;
  struct Kept {
    std::string name;  ///< "my_plugin/scale"
    std::function<Tensor()> view;
  };
  const std::vector<Kept>& kept() const { return kept_; }
  struct Counted {
    std::string plugin;
    Counter counter;
    std::function<double()> read;
  };
  const std::vector<Counted>& counters() const { return counters_; }
  /// Demands that no base offers, contradictions in the spec: an Error before anything runs.
  void check() const;
  std::vector<const SlotInfo*> slots() const;

 private:
  void claim(const void* field, bool same_value);
  struct Handler {
    Event event;
    Edit edit;
    std::function<void(Run&)> call;
  };
  ActivationPolicy activations_;
  Json adapter_;
  Scopes scopes_;
  std::vector<Handler> handlers_;
  std::vector<Kept> kept_;
  std::vector<Counted> counters_;
  std::map<const void*, std::string> claims_;
};
}  // namespace optrush
