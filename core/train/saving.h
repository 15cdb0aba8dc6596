#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>

#include "optrush/json.h"
#include "results/run_result.h"
#include "train/session.h"
#include "train/state.h"

namespace optrush {
/// Saves the state of a run in a folder (RunSpec::save). Each rank saves its part.
class Saving {
 public:
  Saving(Session& session, std::filesystem::path folder) : session_(session), folder_(std::move(folder)) {}

  /// Whether to save after `done` steps.
  bool due(int64_t done) const;
  /// Saves the state before step `next_step`, with the data read so far. All ranks call it; when it returns,
  /// all parts exist and the state is valid. Returns the time and, on rank 0, the bytes of all ranks.
  /// `record` is called with this point before the state becomes valid, and returns the record to store with
  /// it; null: no run continues from this state.
  SavedPoint save(int64_t next_step, const DataPosition& read,
                  const std::function<Json(const SavedPoint& saved)>& record) const;

 private:
  Session& session_;
  std::filesystem::path folder_;
};
}  // namespace optrush
