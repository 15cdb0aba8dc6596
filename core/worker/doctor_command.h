#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
/// `doctor`: what this machine offers, and which plugins work on it.
struct DoctorRequest {
  std::filesystem::path json;  ///< also written there; empty: not
  bool quick = false;          ///< measures for about two seconds only
  std::string device = "auto";
  int64_t threads = 0;  ///< 0: every core, as in a run
  std::vector<std::string> plugin_path;
};

/// Prints the page; the exit code.
int doctor_command(const DoctorRequest&);
}  // namespace optrush
