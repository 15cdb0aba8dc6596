#include "script/objects.h"

#include <array>

namespace optrush {
const char* class_of(const Object& object) {
  static constexpr std::array kNames = {"optrush",    "Model",  "Data",  "Corpus", "Rung",
                                        "Experiment", "Report", "table", "error"};
  static_assert(kNames.size() == std::variant_size_v<Object>);
  return kNames.at(object.index());
}
}  // namespace optrush
