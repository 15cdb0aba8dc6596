#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optrush/batch.h"
#include "optrush/edit.h"
#include "optrush/mesh.h"
#include "optrush/ops.h"
#include "optrush/run.h"
#include "optrush/slot.h"
#include "optrush/unit.h"

namespace optrush {
class DataParallel;  // optrush/data_parallel.h
class Gradients;     // optrush/shard.h
class Optimizer;     // optrush/optimizer.h
class Scopes;        // optrush/scopes.h
class Step;          // optrush/step.h
struct Shard;        // optrush/shard.h
struct Update;       // optrush/optimizer.h

/// What blocks keep between forward and backward, as data: whoever recomputes in eager mode and a compiler
/// that splits a block into the two read the same policy. Recomputing a block whole is a wrap and no policy.
struct ActivationPolicy {
  enum class Kind : uint8_t {
    save,       ///< all that the backward needs
    selective,  ///< what the slots in `keep` computed; the rest is computed again
    budget      ///< what fits in `budget`, chosen by FLOPs per byte
  };
  Kind policy = Kind::save;
  std::vector<std::string> keep = {};  ///< selective: names of operator slots, "attention", "linear", ...
  double budget = 1;  ///< budget: up to 1 a fraction of what `save` keeps in the blocks, above it bytes

  bool operator==(const ActivationPolicy&) const = default;
};
std::string_view to_string(ActivationPolicy::Kind);

/// How the values of a run's ranks become the one that the report shows.
enum class OverRanks : uint8_t { sum, mean, max };
/// Of what a counter's number is: `run`, what it reads at the end; `step`, what the timed steps added,
/// divided by their number.
enum class Per : uint8_t { run, step };

/// A number that a plugin tells of a run: a column of the report. A plugin has 16 at most.
struct Counter {
  std::string name;  ///< "moved to the host": one line of 1 to 40 bytes, once a plugin
  std::string unit;  ///< "bytes", "s", "gathers"; up to 16 bytes, empty where the name says it
  Per per = Per::run;
  OverRanks over_ranks = OverRanks::sum;
};

/// All that a training run is made of: a record of edits. apply() only records; the host checks, prints and
/// resolves. After apply() it is sealed: an edit is an Error, for nobody would see it.
class Recipe {
 protected:
  explicit Recipe(RunSpec);
  ~Recipe();
  struct Record;  ///< what the host reads of it
  RunSpec spec_;
  Editor editor_;
  std::unique_ptr<Record> record_;

 public:
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;

  Mesh& mesh;
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
  const ActivationPolicy& activations() const;
  /// State of the thread that runs a forward; what `enter` returns undoes it (Scopes::Guard).
  void scope(Phase, std::function<std::shared_ptr<void>()> enter);
  /// Lives as long as the recipe: wraps that recompute keep a reference.
  const Scopes& scopes() const;
  /// Handlers of one event run in order of (phase, plugin).
  void on(Event, Phase, std::function<void(Run&)>);

  /// A tensor of the plugin's own that a run which goes on from saved state starts from, the same on every
  /// rank: a loss scale. `view` is asked when state is saved or loaded, which writes to what it returns.
  void keep(std::string name, std::function<Tensor()> view);

  /// How other programs read the parameters that this plugin adds to the model's, in a format of theirs: what
  /// `optrush weights` writes beside them. Each format has one owner.
  void describe(std::string format, Json description);

  /// This plugin makes a loss of data of `kind`, of which the model's head makes none.
  void learn_from(std::string kind);

  /// A number of the plugin's own for the report (result.json, results.csv). `read` is asked between steps,
  /// never in one, from Event::ready on: when the timed steps begin and when they are over, and around what
  /// is run between them. It may wait for the device. What is not finite is an Error with the plugin's name.
  void counter(Counter, std::function<double()> read);

  /// In order of the forward, then those of the run.
  std::vector<const SlotInfo*> slots() const;

 private:
  void claim(const void* field, bool same_value);
};
}  // namespace optrush
