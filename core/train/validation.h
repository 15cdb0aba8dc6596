#pragma once
#include <functional>
#include <vector>

#include "optrush/recipe.h"
#include "results/run_result.h"
#include "train/session.h"

namespace optrush {
/// The loss on data that training never reads (RunSpec::validate): forwards through the resolved slots,
/// without gradients. It leaves nothing behind that a step could see.
class Validation {
 public:
  /// `data` gives this rank's micro-batches where `evaluating()`.
  using Data = std::function<std::vector<Batch>(int64_t step)>;
  Validation(Session& session, Data data);

  /// Whether to validate when `done` steps of the run are.
  bool due(int64_t done) const;
  /// Of the model that has made `done` steps; `step`: the number of the next one.
  /// The loss is the mean over every token of every rank's sequences, the same on all of them. An Error where
  /// it is not finite.
  ValidationPoint point(int64_t done, int64_t step) const;

  /// An Error that names the plugin under which no such forward is known. Before anything runs.
  static void check(const Recipe&);

 private:
  double loss() const;
  Session& session_;
  Data data_;
  std::function<Tensor(const Batch&)> loss_;
};
}  // namespace optrush
