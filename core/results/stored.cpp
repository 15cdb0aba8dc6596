#include "results/stored.h"

#include <algorithm>
#include <map>

#include "base/counted.h"
#include "base/files.h"
#include "base/suggest.h"
#include "optrush/error.h"
#include "results/context.h"
#include "results/document_checks.h"
#include "results/sums.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// The traces of a run, from "runs/" on.
std::vector<std::string> traces_of(const fs::path& run) {
  std::vector<std::string> traces;
  const auto add = [&](const fs::path& folder) {
    if (const fs::path file = folder / "trace.json"; fs::is_regular_file(file))
      traces.push_back(fs::relative(file, run.parent_path().parent_path()).generic_string());
  };
  add(run);
  for (int64_t rank = 0; fs::is_directory(run / "ranks" / std::to_string(rank)); ++rank)
    add(run / "ranks" / std::to_string(rank));
  return traces;
}

StoredRun load_run(const fs::path& folder, const Sums& sums) {
  const fs::path spec = folder / "spec.json", result = folder / "result.json";
  Json raw = sums.read(result);
  return {folder.filename().string(),
          run_spec_from_json(sums.read(spec), spec.string()),
          run_result_from_json(raw, result.string()),
          raw,
          fs::last_write_time(result),
          traces_of(folder)};
}

void load_plans(const fs::path& file, const Sums& sums, Stored& stored) {
  stored.plans.resize(stored.variants.size());
  if (!is_there(file)) return;
  const Json plans = sums.read(file);
  if (!plans.is_array() || plans.size() != stored.variants.size())
    throw Error(
        ErrorCode::invalid_file,
        "must be a list with one plan for each of the " + counted(std::ssize(stored.variants), "variant"), {},
        file.string());
  for (size_t i = 0; i < plans.size(); ++i)
    stored.plans[i] = optional_plan_from_json(plans[i], file.string());
}

void load_noise(const fs::path& file, Stored& stored) {
  for (const Json& line : read_json_lines(file))
    stored.noise.push_back(noise_line_from_json(line, file.string()));
}

void load_runs(const Sums& sums, Stored& stored) {
  const fs::path folder = stored.folder / "runs";
  std::map<std::string, StoredRun> known;
  for (StoredRun& run : stored.runs) known.insert_or_assign(run.id, std::move(run));
  stored.runs.clear();
  if (!fs::is_directory(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path result = entry.path() / "result.json";
    if (!is_there(result)) continue;
    const auto before = known.find(entry.path().filename().string());
    const bool unchanged = before != known.end() && before->second.written == fs::last_write_time(result);
    stored.runs.push_back(unchanged ? std::move(before->second) : load_run(entry.path(), sums));
  }
  std::ranges::sort(stored.runs, {}, &StoredRun::id);
  for (const auto& run : stored.runs) {
    const auto variant = static_cast<size_t>(run.spec.variant);
    if (variant >= stored.variants.size())
      throw Error(ErrorCode::invalid_file,
                  "variant " + std::to_string(run.spec.variant) + " is not in variants.json", {},
                  (folder / run.id / "spec.json").string());
    // A plan that came too late for plans.json is in the result as well.
    if (!stored.plans[variant] && run.spec.purpose == Purpose::measure)
      stored.plans[variant] = run.result.plan;
  }
}

/// Says which of the folders that are taken for one it is.
[[noreturn]] void throw_no_report(const fs::path& folder) {
  const std::string what = "'" + folder.string() + "' is not a report folder: ";
  if (!fs::is_directory(folder))
    throw Error(ErrorCode::missing_file, what + "the folder does not exist",
                "give reports/<experiment>/<label>");
  if (is_there(folder / "report.md"))
    throw Error(ErrorCode::missing_file, what + "experiment.json and results.json are missing",
                "run the experiment, or give a folder with one of these files");
  std::vector<std::string> labels;
  for (const auto& entry : fs::directory_iterator(folder))
    if (is_there(entry.path() / "experiment.json")) labels.push_back(entry.path().filename().string());
  std::ranges::sort(labels);
  throw Error(
      ErrorCode::missing_file, what + "experiment.json is missing",
      labels.empty() ? "give reports/<experiment>/<label>" : "labels in this folder: " + join(labels));
}
void check_order(const std::vector<Variant>& variants, const std::string& where) {
  for (size_t i = 0; i < variants.size(); ++i) {
    const Variant& variant = variants[i];
    const auto index = static_cast<int64_t>(i);
    if (variant.index != index || variant.previous >= index || (variant.previous < 0) != (i == 0) ||
        variant.same_as >= index)
      throw Error(ErrorCode::invalid_file, "variant '" + variant.name + "' is out of order", {}, where);
  }
  if (variants.empty()) throw Error(ErrorCode::invalid_file, "it has no variants", {}, where);
}

/// A report from results.json alone: a folder without the files of its runs.
Stored load_results(const fs::path& file) {
  const std::string where = file.string();
  const Json all = read_json(file);
  const auto part = [&](const char* name) -> const Json& {
    const auto found = all.find(name);
    if (!all.is_object() || found == all.end())
      throw Error(ErrorCode::invalid_file, std::string("field '") + name + "' is missing",
                  "an earlier version wrote it: the report is readable, but cannot be rendered again", where);
    return *found;
  };
  const auto list = [&](const char* name) -> const Json& {
    if (!part(name).is_array())
      throw Error(ErrorCode::invalid_file, std::string("field '") + name + "' must be a list", {}, where);
    return part(name);
  };
  Stored stored;
  stored.folder = file.parent_path();
  stored.experiment = experiment_from_json(part("experiment"), where);
  for (const Json& variant : list("variants")) stored.variants.push_back(variant_from_json(variant, where));
  check_order(stored.variants, where);
  for (const Json& plan : list("plans")) stored.plans.push_back(optional_plan_from_json(plan, where));
  if (stored.plans.size() != stored.variants.size())
    throw Error(ErrorCode::invalid_file,
                "'plans' has " + std::to_string(stored.plans.size()) + " entries for " +
                    counted(std::ssize(stored.variants), "variant"),
                {}, where);
  stored.context = part("context");
  if (!stored.context.empty()) context_from_json(stored.context, where);
  for (const Json& run : list("runs")) {
    check_keys(run, {"id", "spec", "result"}, "field", "a run", where);
    if (run.size() != 3 || !run.at("id").is_string())
      throw Error(ErrorCode::invalid_file, "a run must have 'id', 'spec' and 'result'", {}, where);
    const Json& raw = run.at("result");
    stored.runs.push_back({run.at("id"),
                           run_spec_from_json(run.at("spec"), where),
                           run_result_from_json(raw, where),
                           raw,
                           fs::last_write_time(file),
                           {}});
    if (static_cast<size_t>(stored.runs.back().spec.variant) >= stored.variants.size())
      throw Error(ErrorCode::invalid_file, "run '" + stored.runs.back().id + "' belongs to no variant", {},
                  where);
  }
  for (const Json& probe : list("probes")) stored.noise.push_back(noise_line_from_json(probe, where));
  stored.tried = part("tried");
  if (!stored.tried.is_null()) check_tried(stored.tried, where);
  return stored;
}
}  // namespace

void load_new_runs(Stored& stored) { load_runs(Sums(stored.folder), stored); }

Stored load_report(const fs::path& folder) {
  const fs::path experiment = folder / "experiment.json", variants = folder / "variants.json";
  if (!is_there(experiment)) {
    if (const fs::path results = folder / "results.json"; is_there(results)) return load_results(results);
    throw_no_report(folder);
  }
  const Sums sums(folder);
  Stored stored;
  stored.folder = folder;
  stored.experiment = experiment_from_json(sums.read(experiment), experiment.string());
  for (const auto& variant : sums.read(variants))
    stored.variants.push_back(variant_from_json(variant, variants.string()));
  check_order(stored.variants, variants.string());
  load_plans(folder / "plans.json", sums, stored);
  if (const fs::path context = folder / "context.json"; is_there(context)) {
    stored.context = sums.read(context);
    context_from_json(stored.context, context.string());  // what is wrong with it is said here
  }
  load_runs(sums, stored);
  load_noise(folder / "noise.jsonl", stored);
  if (const fs::path tried = folder / "tried.json"; is_there(tried)) {
    stored.tried = sums.read(tried);
    check_tried(stored.tried, tried.string());
  }
  return stored;
}
}  // namespace optrush
