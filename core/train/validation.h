#pragma once
#include <functional>
#include <vector>

#include "optrush/recipe.h"
#include "results/run_result.h"
#include "train/run_end.h"
#include "train/session.h"

namespace optrush {
/// Computes the loss on the data of RunSpec::validate, without gradients.
class Validation {
 public:
  /// Returns this rank's micro-batches while `evaluating()`.
  using Data = std::function<std::vector<Batch>(int64_t step)>;
  Validation(Session& session, Data data);

  /// Whether to validate after `done` steps.
  bool due(int64_t done) const { return is_due(done, session_.spec().validate.every, session_.spec().train); }
  /// The validation loss after `done` steps: the mean over all tokens of all ranks, equal on all ranks.
  /// `step`: the number of the next step. Throws an Error if the loss is not finite.
  ValidationPoint point(int64_t done, int64_t step) const;
  /// The loss of all ranks' micro-batches before it is read. `batches`: this rank's.
  Tensor loss(std::vector<Batch> batches) const;

  /// Throws an Error that names a plugin for which no such forward exists. Called before anything runs.
  static void check(const Recipe&);

 private:
  Session& session_;
  Data data_;
  std::function<Tensor(const Batch&)> loss_;
};
}  // namespace optrush
