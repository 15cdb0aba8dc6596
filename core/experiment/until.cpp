#include "experiment/until.h"

#include <charconv>
#include <cmath>

#include "optrush/error.h"
#include "spec/fields.h"
#include "spec/value.h"

namespace optrush {
namespace {
const Fields<Until>& until_fields() {
  using T = Until;
  static const auto fields =
      Fields<T>()
          .required(
              &T::within,
              {.name = "within", .doc = "half width of the intervals; 0.03 is ±3 %", .min = 0.0001, .max = 1})
          .required(&T::at_most_s,
                    {.name = "at_most_s", .doc = "time limit of the measurement in seconds", .min = 0.001})
          .optional(
              &T::enough_s,
              {.name = "enough_s", .doc = "seconds after which a decided comparison is enough", .min = 0})
          .optional(&T::race, {.name = "race", .doc = "whether rungs that can no longer win stop early"});
  return fields;
}

/// Seconds per unit; 0 for an unknown unit.
double seconds_in(std::string_view unit) {
  if (unit.empty() || unit == "s") return 1;
  if (unit == "m" || unit == "min") return 60;
  return unit == "h" ? 3600 : 0;
}
}  // namespace

double seconds_from(const Json& json, const std::string& where) {
  double seconds = 0;
  if (json.is_number()) seconds = json.get<double>();
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    const char* end = text.data() + text.size();
    const auto [rest, problem] = std::from_chars(text.data(), end, seconds);
    seconds = problem == std::errc() ? seconds * seconds_in({rest, end}) : 0;
  }
  if (!(seconds > 0) || !std::isfinite(seconds))
    throw Error(ErrorCode::invalid_value, shown(json) + " is not a duration",
                R"(give seconds, or for example "90s", "5m", "1.5h")", where);
  return seconds;
}

Json to_json(const Until& until) { return until_fields().write(until); }
Until until_from_json(const Json& json, const std::string& where) {
  return until_fields().read(json, "until", where);
}
}  // namespace optrush
