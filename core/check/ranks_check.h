#pragma once
#include <string>

#include "check/cases.h"

namespace optrush {
/// What a stack with a plugin for several ranks is on two of them. A case trains on one rank, where such a
/// plugin changes nothing; on two the stack is opened as a plan opens it: what plugins refuse is heard.
struct OnTwoRanks {
  bool asked = false;   ///< a plugin of the stack is for several ranks, and it could be opened without others
  std::string refusal;  ///< empty: nobody refuses
};
OnTwoRanks on_two_ranks(const CheckCase&);
}  // namespace optrush
