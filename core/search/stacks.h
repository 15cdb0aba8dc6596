#pragma once
#include <string>

#include "experiment/search_request.h"
#include "search/search.h"

namespace optrush {
/// The stacks that picks represent: rungs on top of an experiment's base.
class Stacks {
 public:
  Stacks(const Experiment& experiment, const SearchRequest& request)
      : experiment_(experiment), request_(request) {}

  /// How many alternatives each axis has.
  std::vector<size_t> choices() const;
  const std::string& name(const Pick& pick) const { return rung(pick).name; }
  /// "bf16 + fused AdamW"; "base" for none.
  std::string name(const Picks&) const;
  /// "+ bf16, - checkpointing": what `to` has and `from` lacks, and the other way round.
  std::string change(const Picks& from, const Picks& to) const;
  /// An Error where the rungs can't be put together.
  RunSpec spec(const Picks&) const;

 private:
  const Rung& rung(const Pick& pick) const { return request_.axes.at(pick.axis).at(pick.choice); }

  const Experiment& experiment_;
  const SearchRequest& request_;
};
}  // namespace optrush
