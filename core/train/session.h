#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "optrush/binder.h"
#include "optrush/recipe.h"

namespace optrush {
/// A recipe made real on a device, one stage after the other: declare, place, make_ready. Training, `forward`
/// and tests use the same one.
class Session final : public Run {
 public:
  /// The recipe must have been edited and outlive the session. `rank` of `world` is this process's place.
  Session(Recipe& recipe, at::Device device);

  /// Parameters by name and shape; Event::declared. Touches no device: `--plan` stops here.
  void declare();
  /// Values on the device: from the checkpoint or from (seed, name); Event::placed. In a forecast, which has
  /// none, sizes alone.
  void place();
  /// Resolved units, shards and optimizer; Event::ready.
  void make_ready();

  /// Runs the units of a chunk under the scopes; the chunk with the head returns its part of the mean loss.
  Tensor forward(int64_t chunk, const Batch&, Tensor in) const;
  /// The gradient that the backward of `loss` starts from.
  Tensor loss_gradient(const Tensor& loss) const { return loss_gradient_(loss); }
  /// From final gradients to what the optimizer sees.
  void finish_gradients(Update& update) { gradients_(data_parallel_->shards(), update); }
  /// Sets the batch's side inputs.
  void prepare(Batch& batch) const { model_.prepare(batch); }
  int64_t chunks() const { return static_cast<int64_t>(chunks_.size()); }
  const Model& model() const { return model_; }
  Recipe& recipe() { return recipe_; }
  const Recipe& recipe() const { return recipe_; }
  const Params& params() const { return params_; }
  const std::vector<std::string>& notes() const { return notes_; }
  /// Before anything of a step: what it draws (dropout) is a function of (seed, step, data rank) alone.
  void begin_step(int64_t step);
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
  std::vector<Site*> sites(const std::string& role) const override;
  DataParallel& data_parallel() override { return *data_parallel_; }
  Optimizer& optimizer() override { return *optimizer_; }
  int64_t step() const override { return step_; }
  void note(const std::string& text) override;
  Guard compiling(const std::string& what) override;

 private:
  struct Chunk {
    std::vector<UnitFunction> units;
    bool has_head = false;
  };
  Recipe& recipe_;
  at::Device device_;
  Params params_;
  Model model_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Chunk> chunks_;
  std::function<Tensor(const Tensor&)> loss_gradient_;
  std::function<void(std::span<Shard>, Update&)> gradients_;
  std::vector<std::string> notes_;
  int64_t step_ = 0;
  Progress progress_ = [](const std::string&) {};
  std::string phase_;
  double compile_seconds_ = 0;
};

/// fp32, fp64, bf16.
at::ScalarType parse_dtype(const std::string&);
}  // namespace optrush
