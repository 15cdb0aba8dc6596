#include "machine/environment.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "optrush/advanced/machine.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
std::chrono::seconds whole_seconds(const char* name, double usual) {
  return std::chrono::ceil<std::chrono::seconds>(
      std::chrono::duration<double>(environment_seconds(name, usual)));
}
}  // namespace

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

double environment_seconds(const char* name, double usual, double most) {
  const std::string text = environment_variable(name);
  if (text.empty()) return usual;
  double seconds = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (failure != std::errc() || end != text.data() + text.size() || !(seconds > 0 && seconds <= most))
    throw Error(ErrorCode::invalid_value, std::string(name) + " is '" + text + "'",
                "give seconds above 0 and up to " + std::to_string(static_cast<int64_t>(most)),
                "environment");
  return seconds;
}

bool environment_switch(const char* name) {
  const std::string text = environment_variable(name);
  if (text == "1") return true;
  if (text.empty() || text == "0") return false;
  throw Error(ErrorCode::invalid_value, std::string(name) + " is '" + text + "'", "it must be 0 or 1",
              "environment");
}

std::chrono::seconds collective_timeout() { return whole_seconds("OPTRUSH_COLLECTIVE_TIMEOUT", 600); }

std::chrono::seconds state_timeout() { return whole_seconds("OPTRUSH_STATE_TIMEOUT", 3600); }

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

fs::path cache_folder(const std::string& kind) {
  if (const auto chosen = environment_variable("OPTRUSH_CACHE"); !chosen.empty())
    return fs::path(chosen) / kind;
  if (const auto xdg = environment_variable("XDG_CACHE_HOME"); !xdg.empty())
    return fs::path(xdg) / "optimization-rush" / kind;
  const fs::path home = environment_variable("HOME");
  return (home.empty() ? fs::temp_directory_path() : home / ".cache") / "optimization-rush" / kind;
}
}  // namespace optrush
