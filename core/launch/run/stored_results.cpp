#include "launch/run/stored_results.h"

#include <algorithm>
#include <system_error>

#include "base/files.h"
#include "optrush/error.h"
#include "results/result_text.h"
#include "spec/run_identity.h"

namespace optrush {
namespace fs = std::filesystem;

StoredResults::Time StoredResults::time_of(const fs::path& file) {
  std::error_code missing;
  const auto time = fs::last_write_time(file, missing);
  return !missing && fs::is_regular_file(file, missing) ? Time(time) : std::nullopt;
}

const RunResult* StoredResults::if_done(const Job& job, std::string* why_not) {
  const Journal::Run& known = journal_.of(job.id);
  if (known.spec.empty()) return nullptr;
  const Result& stored = read(job.id);
  if (!stored.result) return nullptr;
  const std::string changed = known.spec != identity_of(job) ? "its spec has changed"
                              : was_changed(job.id)          ? "its result was changed after it was written"
                              : !known.inputs.empty() && known.inputs != inputs_of(job.spec)
                                  ? "a file that it reads has changed"
                              : !same_plugins(stored.result->plugins) ? "a plugin file has changed"
                                                                      : "";
  if (changed.empty()) return &*stored.result;
  if (why_not != nullptr) *why_not = changed;
  return nullptr;
}

bool StoredResults::was_changed(const std::string& run) {
  const std::string& written = journal_.of(run).result;
  return !written.empty() && read(run).sha256 != written;
}

bool StoredResults::same_plugins(const std::vector<UsedPlugin>& plugins) {
  return std::ranges::all_of(plugins, [&](const UsedPlugin& plugin) {
    const std::string& sum = sum_of(plugin.file);
    return !sum.empty() && sum == plugin.sha256;
  });
}

const std::string& StoredResults::inputs_of(const RunSpec& spec) {
  std::string& sum = inputs_[input_paths(spec)];
  if (sum.empty()) sum = sum_of_inputs(spec);
  return sum;
}

const StoredResults::Result& StoredResults::read(const std::string& run) {
  const fs::path file = runs_ / run / "result.json";
  const Time written = time_of(file);
  Result& known = results_[run];
  if (known.written == written) return known;
  known = {{written, {}}, {}};
  if (!written) return known;
  try {
    const std::string text = read_file(file);
    known.sha256 = sha256(text);
    known.result = run_result_from_text(text, file.string(), ResultParts::of_report());
  } catch (const Error&) {  // invalid result: the run is repeated
  }
  return known;
}

const std::string& StoredResults::sum_of(const fs::path& file) {
  const Time written = time_of(file);
  Sum& known = sums_[file];
  if (known.written != written) known = {written, written ? sha256_file(file) : ""};
  return known.sha256;
}
}  // namespace optrush
