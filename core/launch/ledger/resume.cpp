#include "launch/ledger/resume.h"

#include <algorithm>
#include <system_error>

#include "base/files.h"
#include "base/text.h"
#include "optrush/error.h"
#include "spec/run_identity.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
/// The reason why a run is none of the present experiment, without a change of its spec.
constexpr const char* kNoSuchRun = "the experiment has no such run";

constexpr size_t kMostListed = 5;

std::string description_of(const JournalEntry& restart) {
  const int64_t kept = restart.kept.value_or(0);
  const std::string from =
      kept > 0 ? "from the state after step " + std::to_string(kept) : "from the beginning";
  return from + ": " + first_line(restart.reason);
}

/// The changes of the training since the spec in a run's folder; "its spec" if they are not known.
std::string changes_since(const std::filesystem::path& run_folder, const RunSpec& now) try {
  const std::filesystem::path file = run_folder / "spec.json";
  const RunSpec before = run_spec_from_json(read_json(file), file.string());
  const std::string changes = changes_of_spec(before, now, /*training=*/true);
  return changes.empty() ? "its spec" : changes;
} catch (const Error&) {
  return "its spec";
}
}  // namespace

bool InputFiles::same(const std::vector<UsedPlugin>& plugins) {
  return std::ranges::all_of(plugins, [&](const UsedPlugin& plugin) {
    std::error_code missing;
    const auto time = fs::last_write_time(plugin.file, missing);
    const bool there = !missing && fs::is_regular_file(plugin.file, missing);
    const auto written = there ? std::optional(time) : std::nullopt;
    Sum& known = plugins_[plugin.file];
    if (known.written != written) known = {written, there ? sha256_file(plugin.file) : ""};
    return !known.sha256.empty() && known.sha256 == plugin.sha256;
  });
}

const std::string& InputFiles::sum_of(const RunSpec& spec) {
  std::string& sum = inputs_[input_paths(spec)];
  if (sum.empty()) sum = sum_of_inputs(spec);
  return sum;
}

std::string why_unrelated(const fs::path& run_folder, const std::vector<Variant>& variants,
                          const Experiment& experiment, const Continues& continues) try {
  const fs::path file = run_folder / "spec.json";
  const RunSpec spec = run_spec_from_json(read_json(file), file.string());
  if (spec.variant >= static_cast<int64_t>(variants.size())) return kNoSuchRun;
  const Variant& variant = variants[static_cast<size_t>(spec.variant)];
  if (run_id(variant, spec) != run_folder.filename() || !variant.has_own_runs()) return kNoSuchRun;
  if (spec.purpose != Purpose::measure && spec.purpose != Purpose::drift)
    return "";  // the gate compares the spec later
  const bool drift = spec.purpose == Purpose::drift;
  RunSpec expected = drift ? drift_of(variant.spec) : in_round(variant.spec, spec.round, experiment.seeds);
  expected.purpose = spec.purpose;
  expected.round = drift ? rounds_of(experiment).value_or(spec.round) : spec.round;
  expected.trace = spec.trace;  // a trace does not change the result
  const fs::path command = run_folder / "external.json";
  const auto external = is_there(command)
                            ? std::optional(fields_of<External>().read(read_json(command), command.string()))
                            : std::nullopt;
  if (external != variant.external) return "its command has changed";
  const std::string changes = changes_of_spec(spec, expected);
  if (changes.empty() || (spec.purpose == Purpose::measure && spec.round == 0 && continues(variant)))
    return "";
  return changes;
} catch (const Error&) {
  return "its spec is missing or invalid";
}

std::string change_of_spec(const Json& record, const Job& job, const std::optional<Plan>& plan,
                           const std::filesystem::path& run_folder) {
  const Json& about = record.at("about");
  if (!about.contains("training") || about.at("training") != training_sha256(job.spec))
    return changes_since(run_folder, job.spec);
  const auto batch = about.at("global_batch").get<int64_t>();
  if (!plan) return "the plan";
  if (plan->problem.global_batch != batch)
    return "the global batch from " + std::to_string(batch) + " to " +
           counted(plan->problem.global_batch, "sequence");
  return record.at("result").is_object() ? "the number of ranks of a complete run" : "";
}

std::string note_of(const std::vector<JournalEntry>& restarts) {
  int64_t again = 0;
  for (const JournalEntry& restart : restarts) again += restart.made.value_or(0) - restart.kept.value_or(0);
  std::string note = "it started again " + counted(restarts.size(), "time") + " after a fault, and made " +
                     counted(again, "step") + " again";
  for (size_t i = 0; i < std::min(restarts.size(), kMostListed); ++i)
    note += (i == 0 ? ": " : "; ") + description_of(restarts[i]);
  if (restarts.size() > kMostListed)
    note += "; journal.jsonl lists " + std::to_string(restarts.size() - kMostListed) + " more";
  return note;
}

void check_restarts(const Expanded& expanded) {
  const Experiment& experiment = expanded.experiment;
  if (experiment.max_restarts == 0) return;
  const std::string asked = "max_restarts = " + std::to_string(experiment.max_restarts);
  if (experiment.interleave == Interleave::on)
    throw UsageError(ErrorCode::conflict,
                     asked + " excludes interleaved runs, which cannot continue from a saved state",
                     "leave out interleave = true, or max_restarts");
  const auto saves = [](const Variant& variant) { return variant.spec.save.every > 0 && !variant.external; };
  if (std::ranges::none_of(expanded.variants, saves))
    throw UsageError(asked + " needs a run that saves its state, and none does",
                     "add save = { every = N } to the experiment, or give --set save.every=N");
}
}  // namespace optrush
