#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "distributed/groups.h"
#include "optrush/json.h"
#include "optrush/recipe.h"
#include "optrush/scopes.h"

namespace optrush {
/// The records of plugins, except for the edits of slots.
struct Recipe::Record {
  struct Handler {
    Event event;
    Edit edit;
    std::function<void(Run&)> call;
  };
  struct KeptTensor {
    std::string name;  ///< "my_plugin/scale"
    std::function<Tensor()> view;
    Kept whose;
  };
  struct Counted {
    std::string plugin;
    Counter counter;
    std::function<double()> read;
  };
  RunMesh mesh;
  ActivationPolicy activations;
  Scopes scopes;
  std::vector<Handler> handlers;
  std::vector<KeptTensor> kept;
  std::vector<Counted> counters;
  std::map<std::string, Json> descriptions;  ///< parameter descriptions, by format
  std::set<std::string> learned;             ///< kinds of data for which a plugin defines a loss
  std::map<const void*, std::string> claims;
};

/// The host's view of a recipe: it sets the plugin that edits, seals, checks and reads it.
class RunRecipe final : public Recipe {
 public:
  using KeptTensor = Record::KeptTensor;
  using Counted = Record::Counted;

  explicit RunRecipe(RunSpec spec) : Recipe(std::move(spec)) {}

  void edit_as(std::string plugin) { editor_.name = std::move(plugin); }
  void seal() { editor_.sealed = true; }
  /// Throws an Error if a plugin demands a feature that no base offers. Called before anything runs.
  void check() const;
  void fire(Event, Run&) const;
  RunMesh& run_mesh() const { return record_->mesh; }
  const std::vector<KeptTensor>& kept() const { return record_->kept; }
  const std::vector<Counted>& counters() const { return record_->counters; }
  /// Whether a plugin defines a loss for data of this kind.
  bool learns_from(const std::string& kind) const { return record_->learned.contains(kind); }
  /// Null if no plugin describes its parameters in this format.
  Json description(const std::string& format) const;
};

/// Replaces the autograd engine of the process by one that supports SavedTensorScope. Must be called before
/// the first backward, because an engine that has run keeps the queues of its devices.
void use_saved_tensor_engine();
}  // namespace optrush
