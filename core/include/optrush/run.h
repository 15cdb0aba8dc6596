#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/mesh.h"
#include "optrush/param.h"
#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush {
class DataParallel;
class Optimizer;
struct Update;

/// Lifecycle of a run in a worker, in this order. apply() comes before all of it and touches no device.
enum class Event : uint8_t {
  mesh_initialized,  ///< process groups exist
  meta_initialized,  ///< parameters have names and shapes and no values: add, freeze, tie, split, encode here
  materialized,      ///< values exist
  ready,             ///< every slot is resolved for every module; data parallelism and optimizer are built
  step_begin,
  step_end,
  finished
};
std::string_view to_string(Event);

/// What plugins see of a run in their events and makers.
class Run {
 public:
  virtual ~Run() = default;
  virtual const RunSpec& spec() const = 0;
  virtual at::Device device() const = 0;
  virtual Mesh& mesh() = 0;
  virtual Params& params() = 0;
  /// Top units of the whole model in order of the forward.
  virtual const std::vector<std::unique_ptr<Unit>>& units() const = 0;
  /// Those that this rank runs, by chunk (Recipe::stages): params() then has theirs alone. Known when
  /// DataParallel is made.
  virtual const std::vector<std::vector<Unit*>>& chunks() const = 0;
  /// Modules of one role, "linear": in every unit of the model, and once chunks() are known in those alone.
  virtual std::vector<Module*> modules(const std::string& role) const = 0;
  virtual DataParallel& data_parallel() = 0;
  virtual Optimizer& optimizer() = 0;
  virtual int64_t step() const = 0;
  /// What the optimizer is told in the present step, for one that steps before Step::update; null where a
  /// step has no update, as in checks of gradients. Later wraps of Recipe::gradients may still change it.
  virtual const Update* update() = 0;
  /// What theory says that this rank sends in a step by a collective of the group over `dims`: the report
  /// shows it beside what was counted. Calls for one collective and group add up.
  virtual void expect_traffic(const std::string& collective, const Mesh::Names& dims, double bytes) = 0;
  /// A remark for the report: "attention ran the flash kernel".
  virtual void note(const std::string&) = 0;
  /// Time that makes code and trains nothing, from the call to the end of the guard: the report shows it
  /// apart, the progress line shows `what`. FLOPs and kernels that run meanwhile count for no step.
  using Guard = std::shared_ptr<void>;
  [[nodiscard]] virtual Guard compiling(const std::string& what) = 0;
};
}  // namespace optrush
