#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "data/batches.h"
#include "data/data_position.h"
#include "optrush/json.h"
#include "train/measurement.h"
#include "train/run_record.h"
#include "train/session.h"

namespace optrush {
/// The history of a run that may be interrupted, or was.
struct Continuation {
  Json about;   ///< stored with every state: the runs that may continue from it
  Json before;  ///< what lay beside the state that the session was loaded with; null: the run begins
  std::optional<DataPosition> read = std::nullopt;  ///< what load_state() returned, where one was loaded
};

/// The part of a run before an interruption, and the data stored with its state for the part after one.
class RunHistory {
 public:
  RunHistory(Session& session, Continuation run) : session_(session), run_(std::move(run)) {}

  /// Takes up what the interrupted run had made when it saved its state, and notes that it was interrupted;
  /// data go on behind the last sample that was read. A run that begins keeps what its parameters are.
  void begin(RunRecord&, Measurement&, Batches&);
  /// The result of a run that was interrupted after its last save, where all is known; none: there are steps
  /// to make.
  std::optional<RunResult> result() const;
  /// Number of the run's first step, also of an earlier process.
  int64_t first_step() const { return first_step_; }
  /// An Error where no parameter is another than before the run began; `steps`: that it has made.
  void check_that_something_changed(int64_t steps) const;
  /// The data stored with a saved state. `end`: the result of a run that has made its last step.
  Json beside_state(const RunRecord&, const Measurement&, const SavedPoint& saved,
                    const std::optional<RunResult>& end) const;

 private:
  void take_up_data(Batches&);
  void note_interruptions();
  /// Whether other ranks or micro-batches made the steps so far, with the same global batch.
  bool shares_otherwise() const;
  void note_other_ranks();

  Session& session_;
  Continuation run_;
  int64_t first_step_ = 0;
  std::vector<double> fingerprint_;     ///< of the parameters before the run began
  Json interruptions_ = Json::array();  ///< steps with which it went on
};
}  // namespace optrush
