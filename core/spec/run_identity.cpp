#include "spec/run_identity.h"

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "base/listed_files.h"
#include "spec/spec_json.h"

namespace optrush {
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

std::vector<std::string> input_paths(const RunSpec& spec) {
  std::vector<std::string> paths = {spec.data.path, spec.validate.data.path, spec.start};
  if (const auto checkpoint = spec.model.find("checkpoint");
      checkpoint != spec.model.end() && checkpoint->is_string())
    paths.push_back(checkpoint->get<std::string>());
  std::erase(paths, "");
  return paths;
}

std::string sum_of_inputs(const RunSpec& spec) {
  std::vector<std::string> entries;
  for (const std::string& input : input_paths(spec))
    for (const ListedFile& file : listed_files(input, Unreadable::skipped))
      entries.push_back(file.path + " " + std::to_string(file.size) + " " +
                        std::to_string(file.written.time_since_epoch().count()));
  std::ranges::sort(entries);
  std::string all;
  for (const std::string& entry : entries) all += entry + "\n";
  return sha256(all);
}
}  // namespace optrush
