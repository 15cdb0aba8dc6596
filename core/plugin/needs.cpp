#include "plugin/needs.h"

#include "base/suggest.h"

namespace optrush {
std::vector<std::string> need_names() {
  return {"cuda", "sm_80", "sm_89", "sm_90", "sm_100", "python", "compiler"};
}

std::string unmet_needs(const std::vector<std::string>& needs, const MachineOffer& offer) {
  std::vector<std::string> reasons;
  const auto demand = [&](const std::string& what, const std::string& missing) {
    if (!missing.empty()) reasons.push_back("needs " + what + ": " + missing);
  };
  for (const auto& need : needs) {
    if (need == "cuda") demand("CUDA", offer.no_cuda);
    if (need == "python") demand("Python", offer.no_python);
    if (need == "compiler") demand("a C++ compiler", offer.no_compiler);
    if (!need.starts_with("sm_")) continue;
    if (!offer.no_cuda.empty())
      demand("a GPU of " + need, offer.no_cuda);
    else if (offer.compute_capability < std::stoll(need.substr(3)))
      demand("a GPU of " + need + " or newer", "this one is sm_" + std::to_string(offer.compute_capability));
  }
  return join(reasons, "; ");
}
}  // namespace optrush
