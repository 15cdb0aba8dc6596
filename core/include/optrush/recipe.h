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
class DataParallel;  // optrush/advanced/data_parallel.h
class Gradients;     // optrush/shard.h
class Optimizer;     // optrush/optimizer.h
class Scopes;        // optrush/scopes.h
class Step;          // optrush/step.h
struct Shard;        // optrush/shard.h
struct Update;       // optrush/optimizer.h

/// Activations that blocks keep between forward and backward, as data. Eager recomputation and a compiler use
/// the same policy. Recomputation of whole blocks is a wrap.
struct ActivationPolicy {
  enum class Kind : uint8_t {
    save,       ///< all that the backward needs
    selective,  ///< outputs of the slots in `keep`; the rest is recomputed
    budget      ///< activations that fit in `budget`, chosen by FLOPs per byte
  };
  Kind policy = Kind::save;
  std::vector<std::string> keep = {};  ///< selective: names of operator slots, "attention", "linear", ...
  double budget = 1;  ///< budget: up to 1 a fraction of what `save` keeps in the blocks, above it bytes

  bool operator==(const ActivationPolicy&) const = default;
};
std::string_view to_string(ActivationPolicy::Kind);

/// How the values of the ranks are combined for the report.
enum class OverRanks : uint8_t { sum, mean, max };
/// Meaning of a counter's number: `run`, its value at the end; `step`, its mean increase per timed step.
enum class Per : uint8_t { run, step };

/// A number that a plugin reports for a run, as a column of the report. A plugin has at most 16.
struct Counter {
  std::string name;  ///< "moved to the host": one line of 1 to 40 bytes, unique in a plugin
  std::string unit;  ///< "bytes", "s", "gathers"; up to 16 bytes; empty: none
  Per per = Per::run;
  OverRanks over_ranks = OverRanks::sum;
};

/// Whose tensor a plugin keeps in the saved state.
enum class Kept : uint8_t {
  shared,   ///< equal on every rank, for example a loss scale; a run on other ranks loads it
  per_rank  ///< of one rank, for example the error that a compressor carries on; only the same mesh loads it
};

/// The composition of a training run, as a record of edits. apply() records; the host checks, prints and
/// resolves. After apply() the recipe is sealed: a later edit would have no effect, so it throws an Error.
class Recipe {
 protected:
  explicit Recipe(RunSpec);
  ~Recipe();
  struct Record;  ///< the record for the host
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
  /// forward. It depends on the step only, and another thread may call it in advance.
  Slot<std::vector<Batch>(int64_t step)> data;
  /// The placement of documents in sequences of seq_len positions, for data of documents; plain: one per
  /// sequence. `lengths`, in positions, are at most seq_len. Every document must be placed once. It must be a
  /// pure function, because each rank calls it.
  Slot<Rows(std::span<const int64_t> lengths, int64_t seq_len)> rows;
  /// The top units in each chunk of this rank; plain: one chunk with all units.
  Slot<std::vector<std::vector<Unit*>>(Run&)> stages;
  Slot<std::unique_ptr<DataParallel>(Run&)> data_parallel;
  /// The initial gradient of a backward: ones, or a loss scale.
  Slot<Tensor(const Tensor& loss)> loss_gradient;
  /// Transforms final gradients for the optimizer: unscale, then clip.
  Slot<void(Gradients&, Update&)> gradients;
  /// Creates the optimizer of these shards: all shards of the rank, or those that a wrap passes on.
  Slot<std::unique_ptr<Optimizer>(Run&, std::span<Shard>)> optimizer;
  Slot<void(Step&)> schedule;
  /// The loss of a held-out micro-batch, without gradients; plain: the model's forward. A plugin that wraps
  /// `schedule` for a different loss must also wrap this slot.
  Slot<Tensor(const Batch&)> evaluation;

  const RunSpec& spec() const { return spec_; }
  /// Sets a field of the training spec: set(&TrainSpec::accumulation, 4). Two plugins must set equal values.
  template <class T>
  void set(T TrainSpec::*field, T value) {
    claim(&(spec_.train.*field), spec_.train.*field == value);
    spec_.train.*field = std::move(value);
  }
  /// Sets the activation policy of the blocks. Like a field of the training spec, it has one owner.
  void keep_activations(ActivationPolicy);
  const ActivationPolicy& activations() const;
  /// Adds thread-local state for forwards; the object that `enter` returns undoes it (Scopes::Guard).
  void scope(Phase, std::function<std::shared_ptr<void>()> enter);
  /// Lives as long as the recipe, so wraps that recompute may keep a reference.
  const Scopes& scopes() const;
  /// Handlers of one event run in order of (phase, plugin).
  void on(Event, Phase, std::function<void(Run&)>);

  /// Adds a tensor of the plugin to the saved state. `view` is called when state is saved, loaded or compared
  /// between ranks; loading writes to the returned tensor. Kept::shared is equal on all ranks.
  void keep(std::string name, std::function<Tensor()> view, Kept = Kept::shared);

  /// Describes the parameters that this plugin adds, in the format of other programs. `optrush weights`
  /// writes the description beside them. Each format has one owner.
  void describe(std::string format, Json description);

  /// Declares that this plugin computes a loss for data of `kind`, for which the model's head has none.
  void learn_from(std::string kind);

  /// Adds a number to the report (result.json, results.csv). `read` is called between steps, from
  /// Event::ready on: at the start and end of the timed steps, and around other work between them. It may
  /// wait for the device. A value that is not finite throws an Error with the plugin's name.
  void counter(Counter, std::function<double()> read);

  /// The slots in order of the forward, then the slots of the run.
  std::vector<const SlotInfo*> slots() const;

 private:
  void claim(const void* field, bool same_value);
};
}  // namespace optrush
