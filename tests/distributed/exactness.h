#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trained_ranks.h"

namespace optrush::testing {
/// A small decoder with odd sizes, in double, for ten steps on `ranks` ranks.
RunSpec small_spec(int64_t ranks, std::vector<PluginUse> plugins, const Json& model = Json::object());

/// The same run on one process: the micro-batches of `batch_ranks` ranks one after the other, without
/// parallel plugins.
RunSpec one_process_of(RunSpec spec, int64_t batch_ranks);

/// A run on one process, and the folder of its last state if `states`. A test program trains each different
/// run once, because many meshes are compared with it.
struct Reference {
  TrainedRanks trained;
  std::filesystem::path state;
};
const Reference& reference_of(RankPool&, RanksRun run, bool states = false);

/// Trains both for at most six steps on sequences with unequal numbers of labels. Expects equal losses,
/// gradient norms, final parameters and optimizer states.
void expect_equal_training(RankPool&, RunSpec many, RunSpec one, double tolerance, bool states = true,
                           bool unused_parameters = false);

/// Saves the state of `from` after three steps and continues with `to` for three. Expects the losses of `one`
/// without a break, and its gradient norms if a tolerance is given.
void expect_state_continues(RankPool&, RunSpec from, RunSpec to, RunSpec one,
                            std::optional<double> norm_tolerance = {});

/// Expects the peak of rank 0 within 2 % of the plan's prediction. `copies`: bytes that Gloo may hold in
/// addition (TrainedRanks::peaks).
void expect_predicted_peak(RankPool&, const RunSpec& spec, double copies = 0);

/// The validation losses of a run.
std::vector<double> validation_losses(const TrainedRanks&);

/// The bytes that a rank sent in a step by a collective, as counted and as theory gives.
double sent(const Json& result, const std::string& collective);
double theory(const Json& result, const std::string& collective);
}  // namespace optrush::testing
