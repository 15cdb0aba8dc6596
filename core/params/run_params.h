#pragma once
#include <algorithm>
#include <vector>

#include "optrush/param.h"

namespace optrush {
/// The host's view of Params.
class RunParams final : public Params {
 public:
  /// Keeps the parameters of this rank. all() leaves out the others from here on.
  void keep_only(const std::vector<Param*>& kept) {
    std::erase_if(kept_, [&](Param* param) { return std::ranges::find(kept, param) == kept.end(); });
  }
};
}  // namespace optrush
