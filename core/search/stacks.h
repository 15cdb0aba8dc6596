#pragma once
#include <string>

#include "experiment/experiment.h"
#include "search/search.h"

namespace optrush {
/// Maps picks to stacks: rungs on top of an experiment's base.
class Stacks {
 public:
  Stacks(const Experiment& experiment, const SearchRequest& request)
      : experiment_(experiment), request_(request) {}

  /// The number of alternatives of each axis.
  std::vector<size_t> choices() const;
  const std::string& name(const Pick& pick) const { return rung(pick).name; }
  /// For example "bf16 + fused AdamW"; "base" for an empty stack.
  std::string name(const Picks&) const;
  /// The difference of two stacks: "+ bf16, - checkpointing".
  std::string change(const Picks& from, const Picks& to) const;
  /// Throws an Error if the rungs can't be stacked together.
  Variant variant(const Picks&) const;

 private:
  const Rung& rung(const Pick& pick) const { return request_.axes.at(pick.axis).at(pick.choice); }

  const Experiment& experiment_;
  const SearchRequest& request_;
};
}  // namespace optrush
