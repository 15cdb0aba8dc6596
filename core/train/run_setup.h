#pragma once
#include <functional>
#include <memory>
#include <string>

#include "plugin/description.h"
#include "train/session.h"

namespace optrush {
/// Builds a Session from a spec in four stages: open, connect, declare, make_ready.
class RunSetup final : public Session {
 public:
  /// Loads the plugins of `spec` and records their edits; `edit` may add edits of the host. Then checks and
  /// seals the recipe, and sets the sizes of the mesh. Uses no device and connects to no rank.
  static std::unique_ptr<RunSetup> open(const RunSpec& spec, at::Device device, const Ranks& ranks = {},
                                        const std::function<void(RunRecipe&)>& edit = {});
  /// The same with a catalogue that was already read.
  static std::unique_ptr<RunSetup> open(const RunSpec& spec, const Catalogue&, at::Device device,
                                        const Ranks& ranks, const std::function<void(RunRecipe&)>& edit = {});

  /// Connects the ranks, except in a plan. Then fires Event::mesh_initialized.
  void connect();
  /// Declares parameters by name and shape and fires Event::meta_initialized. Then selects the units and the
  /// elements that this rank keeps. Uses no device: plans stop here, without connect().
  void declare();
  /// Creates values, one parameter at a time: from the checkpoint, from (seed, name), or none in a forecast.
  /// Fires Event::materialized. Then resolves operators, creates the optimizer and fires Event::ready.
  void make_ready();

 private:
  using Session::Session;
  void choose_units();
  void place();
  void start_gpu();
};

/// fp32, fp64, bf16.
at::ScalarType parse_dtype(const std::string&);
}  // namespace optrush
