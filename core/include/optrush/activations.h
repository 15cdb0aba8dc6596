#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace optrush {
/// What blocks keep between forward and backward, as data: whoever recomputes in eager mode and a compiler
/// that splits a block into the two read the same policy. Recomputing a block whole is a wrap and no policy.
struct ActivationPolicy {
  enum class Kind : uint8_t {
    save,       ///< all that the backward needs
    selective,  ///< what the slots in `keep` computed; the rest is computed again
    budget      ///< what fits in `budget`, chosen by FLOPs per byte
  };
  Kind policy = Kind::save;
  std::vector<std::string> keep = {};  ///< selective: names of operator slots, "attention", "linear", ...
  double budget = 1;  ///< budget: up to 1 a fraction of what `save` keeps in the blocks, above it bytes

  bool operator==(const ActivationPolicy&) const = default;
};
std::string_view to_string(ActivationPolicy::Kind);
}  // namespace optrush
