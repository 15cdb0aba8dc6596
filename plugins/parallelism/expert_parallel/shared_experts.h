#pragma once
#include <cstdint>
#include <map>
#include <set>

#include "optrush/unit.h"

namespace optrush::expert_parallel {
/// The shared expert of a mixture needs no exchange. It is computed on request, while rows are in transit,
/// and its mixture gets the result.
class SharedExperts {
 public:
  /// Records a shared expert among the children of a unit. To be called before functions are made.
  void find(const Unit&);
  /// The wrapped function of a mixture or of its shared expert; `inner` for other units.
  UnitFunction wrapped(UnitFunction inner, const Unit&);
  /// Computes the shared expert of the mixture that runs in this layer; does nothing if it has none.
  void compute(int64_t layer, const Batch&);

 private:
  struct Expert {
    UnitFunction function;
    Tensor input, output;  ///< of the mixture that is running
  };
  UnitFunction noting_input(UnitFunction inner, Expert&);
  UnitFunction computed_before(UnitFunction inner, Expert&);

  std::set<const Unit*> units_;
  std::map<int64_t, Expert> of_layer_;
};
}  // namespace optrush::expert_parallel
