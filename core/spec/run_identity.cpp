#include "spec/run_identity.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/files.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
void add(std::vector<std::string>& entries, const fs::directory_entry& file) {
  std::error_code unknown;
  if (!file.is_regular_file(unknown)) return;
  entries.push_back(file.path().string() + " " + std::to_string(file.file_size(unknown)) + " " +
                    std::to_string(file.last_write_time(unknown).time_since_epoch().count()));
}

/// A file, or those of a folder; nothing where there is none.
void add_all(std::vector<std::string>& entries, const fs::path& path) {
  std::error_code unknown;
  if (path.empty() || !fs::exists(path, unknown)) return;
  add(entries, fs::directory_entry(path, unknown));
  for (auto file = fs::recursive_directory_iterator(path, unknown);
       !unknown && file != fs::recursive_directory_iterator(); file.increment(unknown))
    add(entries, *file);
}
}  // namespace

std::string spec_sha256(const RunSpec& spec) {
  RunSpec counted = spec;
  counted.timeout_s = RunSpec().timeout_s;
  return sha256(to_json(counted).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
}

std::string training_sha256(const RunSpec& spec) {
  RunSpec counted = spec;
  const TrainSpec any;
  counted.threads = RunSpec().threads;
  counted.train.world_size = any.world_size;
  counted.train.micro_batch = any.micro_batch;
  counted.train.accumulation = any.accumulation;
  return spec_sha256(counted);
}

std::string sum_of_inputs(const RunSpec& spec) {
  std::vector<std::string> entries;
  add_all(entries, spec.data.path);
  add_all(entries, spec.validate.data.path);
  if (const auto checkpoint = spec.model.find("checkpoint");
      checkpoint != spec.model.end() && checkpoint->is_string())
    add_all(entries, checkpoint->get<std::string>());
  std::ranges::sort(entries);
  std::string all;
  for (const std::string& entry : entries) all += entry + "\n";
  return sha256(all);
}
}  // namespace optrush
