#pragma once
#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "base/contains.h"
#include "distributed/groups.h"
#include "distributed/ranks.h"
#include "model/model.h"
#include "optrush/advanced/data_parallel.h"
#include "optrush/optimizer.h"
#include "recipe/run_recipe.h"
#include "train/run_log.h"

namespace optrush {
struct LoadedPlugin;

/// The host's view of Params.
class RunParams final : public Params {
 public:
  /// Keeps the parameters of this rank. all() leaves out the others from here on.
  void keep_only(const std::vector<Param*>& kept) {
    std::erase_if(kept_, [&](Param* param) { return !optrush::contains(kept, param); });
  }
  /// The parameters of all ranks.
  const std::deque<Param>& declared() const { return params_; }
};

/// A run that is ready to train, and the interface for plugins (Run). RunSetup builds it.
class Session : public Run {
 public:
  ~Session() override;

  /// For a device that computes nothing: parameters are zeros instead of random values.
  void compute_nothing() { computes_ = false; }
  bool computes() const { return computes_; }
  /// Called first in each step.
  void begin_step(int64_t step);
  /// Starts (true) or ends (false) the time in which update() is available, with this step's learning rate.
  void allow_update(bool allowed);
  /// Sets side inputs of the batch, such as rotary tables.
  void prepare(Batch& batch) const { model_.prepare(batch); }
  /// Runs the units of a chunk under the scopes. The chunk with the head returns its part of the mean loss.
  /// Random numbers in a unit depend only on (seed, step, first sequence, unit), unless `seeded` is false
  /// because the caller records the step and replays it.
  Tensor forward(int64_t chunk, const Batch&, Tensor in, bool seeded = true) const;
  /// The initial gradient of the backward of `loss`.
  Tensor loss_gradient(const Tensor& loss) const { return loss_gradient_(loss); }
  Gradients gradients() { return {data_parallel_->shards(), recipe_.mesh, device_}; }
  /// Applies the slot `gradients` to final gradients.
  void finish_gradients(Gradients& gradients, Update& update) { gradients_(gradients, update); }

  RunRecipe& recipe() { return recipe_; }
  const RunRecipe& recipe() const { return recipe_; }
  const std::vector<LoadedPlugin>& plugins() const { return plugins_; }
  const Model& model() const { return model_; }
  const RunParams& params() const { return params_; }
  const Mesh& mesh() const { return recipe_.mesh; }
  const Ranks& ranks() const { return ranks_; }
  /// The store at which the ranks met; null for one rank and in plans.
  c10d::Store* store() const { return store_.get(); }
  /// The groups of the mesh and their shared state, for example the traffic.
  Groups& groups() const { return recipe_.run_mesh().groups(); }
  /// Theoretical traffic of one step, by collective and group.
  using Expected = std::map<std::pair<std::string, std::string>, double>;
  const Expected& expected_traffic() const { return expected_traffic_; }
  RunLog& log() { return log_; }
  const RunLog& log() const { return log_; }
  /// The first step of this process: 0, or the step after the loaded state.
  int64_t first_step() const { return first_step_; }
  void resume_at(int64_t step) { first_step_ = step; }

  const RunSpec& spec() const override { return recipe_.spec(); }
  at::Device device() const override { return device_; }
  Mesh& mesh() override { return recipe_.mesh; }
  Params& params() override { return params_; }
  const std::vector<std::unique_ptr<Unit>>& units() const override { return model_.units; }
  const std::vector<std::vector<Unit*>>& chunks() const override { return chunks_; }
  std::vector<Module*> modules(const std::string& role) const override;
  DataParallel& data_parallel() override { return *data_parallel_; }
  Optimizer& optimizer() override { return *optimizer_; }
  int64_t step() const override { return step_; }
  const Update* update() override;
  void expect_traffic(const std::string& collective, const Mesh::Names& dims, double bytes) override;
  void note(const std::string& text) override { log_.note(text); }
  Guard compiling(const std::string& what) override { return log_.compiling(what); }

 protected:
  Session(std::vector<LoadedPlugin> plugins, const RunSpec& spec, at::Device device, Ranks ranks);

  struct ReadyUnit {
    UnitFunction call;
    uint64_t number = 0;  ///< index among all units of the model
    bool is_head = false;
  };
  // first, so destroyed last: the recipe and the session hold functions of plugins
  std::vector<LoadedPlugin> plugins_;
  RunRecipe recipe_;
  Ranks ranks_;
  at::Device device_;
  c10::intrusive_ptr<c10d::Store> store_;
  RunParams params_;
  Model model_;
  std::vector<std::vector<Unit*>> chunks_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::vector<ReadyUnit>> ready_;  ///< units by chunk
  std::function<Tensor(const Tensor&)> loss_gradient_;
  std::function<void(Gradients&, Update&)> gradients_;
  bool computes_ = true;

 private:
  RunLog log_;
  Expected expected_traffic_;
  int64_t step_ = 0, first_step_ = 0;
  bool updates_ = false;
  Update update_;
};

/// While it lives, the parameters have the values to evaluate and to save (Optimizer::evaluates).
class EvaluatedParameters {
 public:
  explicit EvaluatedParameters(Session& session) : session_(session) { exchange(true); }
  ~EvaluatedParameters() { exchange(false); }
  EvaluatedParameters(const EvaluatedParameters&) = delete;
  EvaluatedParameters& operator=(const EvaluatedParameters&) = delete;

 private:
  void exchange(bool evaluates) const {
    session_.optimizer().evaluates(session_.data_parallel().shards(), evaluates);
  }
  Session& session_;
};
}  // namespace optrush
