#pragma once
#include <string>

#include "optrush/json.h"
#include "spec/spec_json.h"

namespace optrush {
/// What somebody else published of a rung's change; the report puts it beside what was measured here.
struct Published {
  double speedup = 0;  ///< tokens/s over the rung below; 0: not said
  double memory = 0;   ///< peak memory over the rung below's; 0: not said
  std::string source;  ///< who says so: a paper, a README
  std::string on;      ///< the device, a comma, the problem: "A100-80GB, sequence 2048"

  bool operator==(const Published&) const = default;
  /// Whether this GPU is one of those: its name has every part of the device's, as "NVIDIA A100-SXM4-80GB"
  /// has those of "A100-80GB".
  bool comparable_with(const std::string& device) const;
};

Json to_json(const Published&);
/// An Error names `where`.
Published published_from_json(const Json&, const std::string& where);
}  // namespace optrush
