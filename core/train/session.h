#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "distributed/groups.h"
#include "distributed/ranks.h"
#include "model/binder.h"
#include "model/model.h"
#include "optrush/data_parallel.h"
#include "optrush/optimizer.h"
#include "params/run_params.h"
#include "plugin/loader.h"
#include "recipe/run_recipe.h"

namespace optrush {
/// A spec made real, one stage after the other: open, connect, declare, make_ready. Training, plans,
/// forecasts, `forward`, `export`, checks and tests all go this way.
class Session final : public Run {
 public:
  /// Loads the plugins of `spec` and records their edits; `edit` may add edits of the host's own. The recipe
  /// is then checked and sealed, and the mesh has its sizes. Touches no device and joins nobody. Throws what
  /// loading, apply(), Recipe::check() and the mesh throw.
  static std::unique_ptr<Session> open(const RunSpec& spec, at::Device device, const Ranks& ranks = {},
                                       const std::function<void(RunRecipe&)>& edit = {});
  ~Session() override;

  /// The ranks meet, unless they are planned only; Event::meshed.
  void connect();
  /// Parameters by name and shape, Event::declared; then which units and which elements this rank keeps.
  /// Touches no device: plans stop here, and need not connect.
  void declare();
  /// Values on the device, one parameter at a time: from the checkpoint or from (seed, name), in a forecast
  /// sizes alone; Event::placed. Then operators, shards and optimizer; Event::ready.
  void make_ready();

  /// Runs the units of a chunk under the scopes; the chunk with the head returns its part of the mean loss.
  /// What a unit draws follows from (seed, step, first sequence, unit) alone, unless the caller records the
  /// step and runs it again.
  Tensor forward(int64_t chunk, const Batch&, Tensor in, bool seeded = true) const;
  /// The gradient that the backward of `loss` starts from.
  Tensor loss_gradient(const Tensor& loss) const { return loss_gradient_(loss); }
  /// From final gradients to what the optimizer sees.
  void finish_gradients(Gradients& gradients, Update& update) { gradients_(gradients, update); }
  Gradients gradients() { return {data_parallel_->shards(), recipe_.mesh, device_}; }
  /// Sets the batch's side inputs.
  void prepare(Batch& batch) const { model_.prepare(batch); }
  /// Whether this rank runs the head, and so has a loss.
  bool has_head() const;
  const Model& model() const { return model_; }
  RunRecipe& recipe() { return recipe_; }
  const RunRecipe& recipe() const { return recipe_; }
  const Params& params() const { return params_; }
  const Mesh& mesh() const { return recipe_.mesh; }
  const Ranks& ranks() const { return ranks_; }
  std::vector<LoadedPlugin>& plugins() { return plugins_; }
  const std::vector<LoadedPlugin>& plugins() const { return plugins_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Where the ranks met; null for one rank and in plans.
  c10d::Store* store() const { return store_.get(); }

  /// Before anything of a step.
  void begin_step(int64_t step);
  /// From here on to `false`, a step that ends with an update, at this step's learning rate.
  void updates(bool does);
  /// The step that training starts with: 0, or where saved state goes on.
  int64_t first_step() const { return first_step_; }
  void go_on_from(int64_t step) { first_step_ = step; }

  /// What was sent since the run began, and what theory says of one step.
  const TrafficTable& traffic() const;
  using Expected = std::map<std::pair<std::string, std::string>, double>;
  const Expected& expected_traffic() const { return expected_traffic_; }
  /// From here on, waits for other ranks are on the clock's bucket of communication. Null: no longer.
  void time_waits(class StepClock* clock);
  /// While it lives, what is sent is the host's own bookkeeping.
  [[nodiscard]] Guard bookkeeping();

  /// Called as the run goes from one phase to the next: loading, building, warmup, measuring, compiling.
  using Progress = std::function<void(const std::string& phase)>;
  void show_progress(Progress progress) { progress_ = std::move(progress); }
  void enter_phase(const std::string& name);
  double compile_seconds() const { return compile_seconds_; }

  const RunSpec& spec() const override { return recipe_.spec(); }
  at::Device device() const override { return device_; }
  Mesh& mesh() override { return recipe_.mesh; }
  Params& params() override { return params_; }
  const std::vector<std::unique_ptr<Unit>>& units() const override { return model_.units; }
  const std::vector<std::vector<Unit*>>& chunks() const override { return chunks_; }
  std::vector<Site*> sites(const std::string& role) const override;
  DataParallel& data_parallel() override { return *data_parallel_; }
  Optimizer& optimizer() override { return *optimizer_; }
  int64_t step() const override { return step_; }
  const Update* update() override;
  void expect_traffic(const std::string& collective, const Mesh::Names& dims, double bytes) override;
  void note(const std::string& text) override;
  /// A remark that puts the result in doubt: the report shows it below its findings.
  void warn(const std::string& text);
  Guard compiling(const std::string& what) override;

 private:
  Session(std::vector<LoadedPlugin> plugins, const RunSpec& spec, at::Device device, Ranks ranks);
  void choose_units();
  void place();

  struct ReadyUnit {
    UnitFunction call;
    uint64_t number = 0;  ///< among all units of the model
    bool is_head = false;
  };
  std::vector<LoadedPlugin> plugins_;  // first: what they gave to the recipe and the session ends before them
  RunRecipe recipe_;
  Ranks ranks_;
  at::Device device_;
  c10::intrusive_ptr<c10d::Store> store_;
  RunParams params_;
  Model model_;
  std::vector<std::vector<Unit*>> chunks_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::vector<ReadyUnit>> ready_;  ///< by chunk
  std::function<Tensor(const Tensor&)> loss_gradient_;
  std::function<void(Gradients&, Update&)> gradients_;
  std::vector<std::string> notes_, warnings_;
  Expected expected_traffic_;
  int64_t step_ = 0, first_step_ = 0;
  bool updates_ = false;
  Update update_;
  Progress progress_ = [](const std::string&) {};
  std::string phase_;
  double compile_seconds_ = 0;
};

/// fp32, fp64, bf16.
at::ScalarType parse_dtype(const std::string&);
}  // namespace optrush
