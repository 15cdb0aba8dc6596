#include "launch/machine/hardware_names.h"

#include <fstream>
#include <map>
#include <vector>

#include "base/suggest.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// The value of the first line "key : value"; "" if there is none.
std::string field_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}
}  // namespace

HardwareNames read_hardware_names(const fs::path& root) {
  std::map<std::string, int64_t> models;
  std::error_code none;
  for (fs::directory_iterator gpu(root / "proc/driver/nvidia/gpus", none), end; !none && gpu != end;
       gpu.increment(none))
    if (auto model = field_of(gpu->path() / "information", "Model"); !model.empty()) ++models[model];
  std::vector<std::string> gpus;
  for (const auto& [model, number] : models) gpus.push_back(std::to_string(number) + " x " + model);
  return {field_of(root / "proc/cpuinfo", "model name"), join(gpus)};
}
}  // namespace optrush
