#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "data/batches.h"
#include "optrush/json.h"
#include "train/measurement.h"
#include "train/run_record.h"
#include "train/session.h"
#include "train/state.h"

namespace optrush {
/// What a run knows about the processes that made its earlier steps.
struct Continuation {
  Json about;   ///< stored with each state: identifies the runs that may continue from it
  Json before;  ///< the record stored with the loaded state; null: the run begins
  std::optional<DataPosition> read = std::nullopt;  ///< the result of load_state(), if a state was loaded
};

/// The steps before an interruption, and the record with each state from which a later process continues.
class RunHistory {
 public:
  RunHistory(Session& session, Continuation run) : session_(session), run_(std::move(run)) {}

  /// Takes over the steps up to the loaded state, notes the interruption, and moves the data behind the last
  /// sample that was read. A run that begins stores a fingerprint of its parameters.
  void begin(RunRecord&, Measurement&, Batches&);
  /// The result of a run that was interrupted after its last save, if no step was left.
  std::optional<RunResult> result() const;
  /// The number of the run's first step, which an earlier process may have made.
  int64_t first_step() const { return first_step_; }
  /// Throws an Error if no parameter has changed since the run began. `steps`: the number of steps made.
  void check_that_something_changed(int64_t steps) const;
  /// The record to store with a saved state. `end`: the result, if the run has made its last step.
  Json beside_state(const RunRecord&, const Measurement&, const SavedPoint& saved,
                    const std::optional<RunResult>& end) const;

 private:
  void resume_data(Batches&);
  void note_interruptions();
  /// Notes what the run took from `start`. Throws an Error if the schedule of the learning rate has ended.
  void note_start();
  /// Whether the steps so far were made with other ranks or micro-batches, but the same global batch.
  bool shares_otherwise() const;
  void note_other_ranks();

  Session& session_;
  Continuation run_;
  int64_t first_step_ = 0;
  std::vector<double> fingerprint_;     ///< fingerprint of the parameters at the start of the run
  Json interruptions_ = Json::array();  ///< the first step after each interruption
};
}  // namespace optrush
