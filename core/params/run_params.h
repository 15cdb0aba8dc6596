#pragma once
#include <algorithm>
#include <vector>

#include "optrush/param.h"

namespace optrush {
/// The parameters of a run as the host has them.
class RunParams final : public Params {
 public:
  /// The others are not this rank's: all() leaves them out from here on.
  void keep_only(const std::vector<Param*>& kept) {
    std::erase_if(kept_, [&](Param* param) { return std::ranges::find(kept, param) == kept.end(); });
  }
};
}  // namespace optrush
