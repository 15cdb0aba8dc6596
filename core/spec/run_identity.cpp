#include "spec/run_identity.h"

#include <algorithm>

#include "base/files.h"
#include "base/listed_files.h"
#include "base/text.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
/// The JSON of a spec without its time limit, and for `training` without the fields that distribute the work.
Json counted(RunSpec spec, bool training) {
  const RunSpec any;
  spec.timeout_s = any.timeout_s;
  if (training) {
    spec.threads = any.threads;
    spec.train.world_size = any.train.world_size;
    spec.train.micro_batch = any.train.micro_batch;
    spec.train.accumulation = any.train.accumulation;
  }
  return to_json(spec);
}

std::string sum_of(const Json& json) {
  return sha256(json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
}

/// A plugin in the list of plugins, otherwise the position.
std::string name_in_list(const Json& entry, size_t place) {
  const auto name = entry.is_object() ? entry.find("name") : entry.end();
  return entry.is_object() && name != entry.end() && name->is_string() ? name->get<std::string>()
                                                                       : std::to_string(place + 1);
}

void add_changes(const std::string& name, const Json& before, const Json& now,
                 std::vector<std::string>& changes) {
  const auto inside = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
  if (before == now) return;
  if (before.is_object() && now.is_object()) {
    Json all = before;
    all.update(now);
    for (const auto& [key, value] : all.items())
      add_changes(inside(key), before.value(key, Json()), now.value(key, Json()), changes);
  } else if (before.is_array() && now.is_array() && before.size() == now.size()) {
    for (size_t i = 0; i < now.size(); ++i)
      add_changes(inside(name_in_list(now[i], i)), before[i], now[i], changes);
  } else {
    const auto said = [](const Json& value) { return value.is_null() ? "nothing" : shown(value); };
    changes.push_back(name + " from " + said(before) + " to " + said(now));
  }
}
}  // namespace

std::string spec_sha256(const RunSpec& spec) { return sum_of(counted(spec, /*training=*/false)); }

std::string training_sha256(const RunSpec& spec) { return sum_of(counted(spec, /*training=*/true)); }

std::string changes_of_spec(const RunSpec& before, const RunSpec& now, bool training) {
  constexpr size_t kMostShown = 4;
  std::vector<std::string> changes;
  add_changes("", counted(before, training), counted(now, training), changes);
  const size_t all = changes.size();
  if (all > kMostShown) changes.resize(kMostShown);
  return join(changes) + (all > kMostShown ? ", and " + std::to_string(all - kMostShown) + " more" : "");
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
