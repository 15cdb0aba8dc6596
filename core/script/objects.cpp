#include "script/objects.h"

#include <array>

namespace optrush {
const char* class_of(const Object& object) {
  static constexpr std::array names = {"optrush",    "Model",  "Data",  "Corpus", "Rung",
                                       "Experiment", "Report", "table", "error"};
  static_assert(names.size() == std::variant_size_v<Object>);
  return names.at(object.index());
}
}  // namespace optrush
