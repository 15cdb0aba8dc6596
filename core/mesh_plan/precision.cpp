#include "mesh_plan/precision.h"

#include <algorithm>

#include "base/suggest.h"
#include "optrush/error.h"

namespace optrush {
const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = {"fp32", "mixed", "bf16", "fp8"};
  return names;
}

Precision precision_from(const std::string& name) {
  const auto& names = precision_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw UsageError("there is no precision '" + name + "'", did_you_mean(name, names), "--dtype");
  return static_cast<Precision>(found - names.begin());
}

std::string to_string(Precision precision) { return precision_names().at(static_cast<size_t>(precision)); }

NumberBytes::NumberBytes(Precision precision) {
  if (precision == Precision::fp32) return;
  operand = activation = 2;
  if (precision == Precision::mixed) {
    copy = 2;
    return;
  }
  weight = gradient = stream = 2;
  optimizer = 12;
  if (precision == Precision::fp8) copy = 2;  // a row-wise and a column-wise one, of a byte each
}

double NumberBytes::update(int64_t micro_batches) const {
  const double weights = optimizer > 8 ? weight : 2 * weight;  // with masters the weight is only written
  return gradients(micro_batches) + 2 * optimizer + weights;
}
}  // namespace optrush
