#include "report/analysis/quantities.h"
#include "report/numbers/format.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
std::string csv_cell(const Quantity& q, const Analysis& a, const Row& row) {
  if (q.word != nullptr) return q.word(a, row);
  const auto value = number_of(q, a, row);
  return value ? exact_number(*value) : "";
}
}  // namespace

std::string csv(const Analysis& a) {
  std::string text;
  const auto add_line = [&](auto&& cell) {
    const char* separator = "";
    for (const Quantity& q : quantities()) {
      if (*q.csv == '\0') continue;
      text += separator + csv_field(cell(q));
      separator = ",";
    }
    text += "\n";
  };
  add_line([](const Quantity& q) { return std::string(q.csv); });
  for (const Row& row : a.rows) add_line([&](const Quantity& q) { return csv_cell(q, a, row); });
  return text;
}
}  // namespace optrush
