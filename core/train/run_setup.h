#pragma once
#include <functional>
#include <memory>
#include <string>

#include "plugin/description.h"
#include "train/session.h"

namespace optrush {
/// A spec made real, one stage after the other: open, connect, declare, make_ready. Training, plans,
/// forecasts, `forward`, `export`, checks and tests all go this way.
class RunSetup final : public Session {
 public:
  /// Loads the plugins of `spec` and records their edits; `edit` may add edits of the host's own. The recipe
  /// is then checked and sealed, and the mesh has its sizes. Touches no device and joins nobody. Throws what
  /// loading, apply(), RunRecipe::check() and the mesh throw.
  static std::unique_ptr<RunSetup> open(const RunSpec& spec, at::Device device, const Ranks& ranks = {},
                                        const std::function<void(RunRecipe&)>& edit = {});
  /// The same where the plugins were looked for before.
  static std::unique_ptr<RunSetup> open(const RunSpec& spec, const Catalogue&, at::Device device,
                                        const Ranks& ranks, const std::function<void(RunRecipe&)>& edit = {});

  /// The ranks meet, unless they are planned only; Event::mesh_initialized.
  void connect();
  /// Parameters by name and shape, Event::meta_initialized; then which units and which elements this rank
  /// keeps. Touches no device: plans stop here, and need not connect.
  void declare();
  /// Values on the device, one parameter at a time: from the checkpoint or from (seed, name), in a forecast
  /// sizes alone; Event::materialized. Then operators, shards and optimizer; Event::ready.
  void make_ready();
  /// The device computes nothing: parameters get zeros, which nobody draws.
  void draw_no_values() { draws_ = false; }

 private:
  using Session::Session;
  void choose_units();
  void place();
  void start_gpu();

  bool draws_ = true;
};

/// fp32, fp64, bf16.
at::ScalarType parse_dtype(const std::string&);
}  // namespace optrush
