#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trained_ranks.h"

namespace optrush::testing {
/// A small decoder with odd sizes, in double, for ten steps on so many ranks.
RunSpec small_spec(int64_t ranks, std::vector<PluginUse> plugins, const Json& model = Json::object());

/// The same on one process: micro-batches of `batch_ranks` one after the other, without the plugins for
/// several ranks.
RunSpec one_process_of(RunSpec spec, int64_t batch_ranks);

/// A run on one process, and the folder of its last state if `states`. Each different run is trained once in
/// a test program, because many meshes are compared with the same one.
struct Reference {
  TrainedRanks trained;
  std::filesystem::path state;
};
const Reference& reference_of(RankPool&, RanksRun run, bool states = false);

/// At most six steps of both, sequences with unequal numbers of labels: losses, gradient norms, and every
/// element of the final parameters and of the optimizer's state.
void expect_equal_training(RankPool&, RunSpec many, RunSpec one, double tolerance, bool states = true,
                           bool rests = false);

/// A state that `from` saves after three steps goes on for three under `to`, as `one` trains without a break:
/// losses, and gradient norms where they have a tolerance.
void expect_state_goes_on(RankPool&, RunSpec from, RunSpec to, RunSpec one,
                          std::optional<double> norm_tolerance = {});

/// The peak of a step of rank 0 is the one that a plan predicts, to two hundredths. `copies`: bytes that Gloo
/// may hold beside it (TrainedRanks::peaks).
void expect_predicted_peak(RankPool&, const RunSpec& spec, double copies = 0);

/// Of a run that validates.
std::vector<double> validation_losses(const TrainedRanks&);

/// Bytes that a rank sent in a step by a collective, and those that theory says.
double sent(const Json& result, const std::string& collective);
double theory(const Json& result, const std::string& collective);
}  // namespace optrush::testing
