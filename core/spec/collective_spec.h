#pragma once
#include <string>

#include "spec/fields.h"

namespace optrush {
/// One collective alone, among all ranks of a run.
struct CollectiveSpec {
  std::string op;
  int64_t bytes = int64_t{1} << 20;  ///< as nccl-tests counts: of the larger of a rank's input and output
  int64_t repeat = 1;                ///< calls in a step, one after the other
};
const Fields<CollectiveSpec>& collective_fields();
CollectiveSpec collective_from_json(const Json&, const std::string& where);
Json to_json(const CollectiveSpec&);
}  // namespace optrush
