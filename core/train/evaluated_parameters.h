#pragma once
#include "train/session.h"

namespace optrush {
/// While it lives, the parameters have the values to evaluate and to save (Optimizer::evaluates).
class EvaluatedParameters {
 public:
  explicit EvaluatedParameters(Session& session) : session_(session) { exchange(true); }
  ~EvaluatedParameters() { exchange(false); }
  EvaluatedParameters(const EvaluatedParameters&) = delete;
  EvaluatedParameters& operator=(const EvaluatedParameters&) = delete;

 private:
  void exchange(bool evaluates) const {
    session_.optimizer().evaluates(session_.data_parallel().shards(), evaluates);
  }
  Session& session_;
};
}  // namespace optrush
