#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>

#include "data/data_position.h"
#include "optrush/json.h"
#include "results/run_result.h"
#include "train/session.h"

namespace optrush {
/// Saves the state of a run in a folder (RunSpec::save), each rank its part.
class Saving {
 public:
  Saving(Session& session, std::filesystem::path folder) : session_(session), folder_(std::move(folder)) {}

  /// Whether to save when `done` steps of the run are.
  bool due(int64_t done) const;
  /// The state from which the next step is `next_step`, with data read so far. All ranks call it; when one
  /// returns, all parts are there and count. Returns what it took, the bytes of all ranks on rank 0. `record`
  /// is asked, with that as it is before the state counts, for what the run has recorded; null: no run
  /// continues from this state.
  SavedPoint save(int64_t next_step, const DataPosition& read,
                  const std::function<Json(const SavedPoint& saved)>& record) const;

 private:
  Session& session_;
  std::filesystem::path folder_;
};
}  // namespace optrush
