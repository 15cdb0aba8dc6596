#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
struct CheckListRequest {
  std::string device = "auto";
  std::vector<std::string> plugins;  ///< NAME[:key=value,...]; empty: all
  std::vector<std::string> kinds;    ///< empty: all
  std::vector<std::string> plugin_path;
  std::filesystem::path out;
};
/// Writes the cases of this machine, in their order: {"device", "name", "unusable", "cases"}. Each case
/// carries its `identity`: a hash of all that its result depends on (device, build, plugin files, the case
/// itself). Loads no plugin.
int check_list_command(const CheckListRequest&);

/// Runs the cases of a file that check_list_command wrote, one after the other, and appends to the journal, a
/// JSON line each, when one begins and how it ended. A case that fails is the last one of the process.
int check_run_command(const std::filesystem::path& cases, const std::filesystem::path& journal);
}  // namespace optrush
