#include "script/byte_size.h"

#include <array>
#include <cmath>

#include "optrush/error.h"

namespace optrush {
double bytes_from(const Json& given, const std::string& what) {
  if (given.is_number() && given.get<double>() > 0) return given.get<double>();
  const std::string text = given.is_string() ? given.get<std::string>() : given.dump();
  size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  const std::string unit = text.substr(std::min(text.find_first_not_of(' ', end), text.size()));
  constexpr std::array<std::pair<const char*, double>, 5> kUnits = {
      {{"B", 1}, {"MB", 1e6}, {"MiB", 1 << 20}, {"GB", 1e9}, {"GiB", 1 << 30}}};
  for (const auto& [name, bytes] : kUnits)
    if (end > 0 && unit == name && number > 0 && std::isfinite(number * bytes)) return number * bytes;
  throw Error(ErrorCode::invalid_value, what + " is '" + text + "'",
              R"(give bytes, or "20GB", "512MB", "16GiB")");
}
}  // namespace optrush
