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

/// Lifecycle of a run in a worker, in order. apply() runs before all events and must not use a device.
enum class Event : uint8_t {
  mesh_initialized,  ///< process groups exist
  meta_initialized,  ///< parameters have names and shapes but no values: add, freeze, tie, split, encode here
  materialized,      ///< values exist
  ready,             ///< every slot is resolved for every module; data parallelism and optimizer are built
  step_begin,
  step_end,
  finished
};
std::string_view to_string(Event);

/// The view of a run for plugins, in their events and slot functions.
class Run {
 public:
  virtual ~Run() = default;
  virtual const RunSpec& spec() const = 0;
  virtual at::Device device() const = 0;
  virtual Mesh& mesh() = 0;
  virtual Params& params() = 0;
  /// Top units of the whole model in order of the forward.
  virtual const std::vector<std::unique_ptr<Unit>>& units() const = 0;
  /// The units that this rank runs, by chunk (Recipe::stages); params() then has only their parameters.
  /// Available when DataParallel is created.
  virtual const std::vector<std::vector<Unit*>>& chunks() const = 0;
  /// Modules of one role, for example "linear": in all units, or in chunks() once these are known.
  virtual std::vector<Module*> modules(const std::string& role) const = 0;
  virtual DataParallel& data_parallel() = 0;
  virtual Optimizer& optimizer() = 0;
  virtual int64_t step() const = 0;
  /// The optimizer's arguments in the present step, for optimizers that step before Step::update; null if a
  /// step has no update, as in gradient checks. Later wraps of Recipe::gradients may still change it.
  virtual const Update* update() = 0;
  /// Declares the bytes that this rank sends in a step in theory, by a collective of the group over `dims`.
  /// The report shows them beside the counted bytes. Calls for the same collective and group add up.
  virtual void expect_traffic(const std::string& collective, const Mesh::Names& dims, double bytes) = 0;
  /// A remark for the report: "attention ran the flash kernel".
  virtual void note(const std::string&) = 0;
  /// Marks compilation time, from the call to the end of the guard. The report shows it separately, and the
  /// progress line shows `what`. FLOPs and kernels in this time are not counted.
  using Guard = std::shared_ptr<void>;
  [[nodiscard]] virtual Guard compiling(const std::string& what) = 0;
};
}  // namespace optrush
