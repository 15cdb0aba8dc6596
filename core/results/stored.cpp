#include "results/stored.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <iterator>
#include <map>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/files.h"
#include "base/json_cursor.h"
#include "base/text.h"
#include "optrush/error.h"
#include "results/context.h"
#include "results/sums.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// The paths of a run's traces, starting with "runs/".
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

/// Whether plans.json lacks the plan of this run. A plan that was made too late for it is stored in the
/// result.
bool lacks_plan(const RunSpec& spec, const Plans& plans) {
  const auto variant = static_cast<size_t>(spec.variant);
  return spec.purpose == Purpose::measure && variant < plans.size() && !plans[variant];
}

/// Reads the specs of runs. The specs of a variant differ only in the number of the round, so the rest is
/// read once.
class SpecReader {
 public:
  RunSpec read(const std::string& text, const std::string& where) {
    const auto whole = [&] { return run_spec_from_json(parse_stored(text, where), where); };
    const auto [before, after, round] = around_round(text);
    if (round < 0) return whole();
    const auto [known, is_new] = known_.try_emplace(text.substr(0, before) + text.substr(after));
    if (is_new) known->second = whole();
    RunSpec spec = known->second;
    spec.round = round;
    return spec;
  }

 private:
  struct Round {
    size_t before = 0, after = 0;
    int64_t number = -1;  ///< negative: the text has no number, or the cursor can't read it
  };
  static Round around_round(std::string_view text) {
    JsonCursor cursor(text);
    Round found;
    std::string_view key;
    for (cursor.enter('{'); cursor.next_member(key);) {
      if (key != "round") {
        cursor.skip();
        continue;
      }
      if (found.number >= 0) return {};
      found.before = cursor.position();
      found.number = cursor.integer();
      found.after = cursor.position();
    }
    return cursor.good() && cursor.at_end() ? found : Round{};
  }

  std::unordered_map<std::string, RunSpec> known_;
};

StoredRun load_run(const fs::path& folder, const Sums& sums, const Plans& plans, SpecReader& specs,
                   ResultParts keep) {
  const fs::path spec_file = folder / "spec.json", result = folder / "result.json";
  const std::string spec_text = sums.text(spec_file), result_text = sums.text(result);
  RunSpec spec = specs.read(spec_text, spec_file.string());
  keep.plan = lacks_plan(spec, plans);
  return {folder.filename().string(),
          std::move(spec),
          run_result_from_text(result_text, result.string(), keep),
          {spec_file, 0, spec_text.size()},
          {result, 0, result_text.size()},
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

/// Reads results with several threads, because reading takes most of the time of a report of long runs. Each
/// thread holds one text at a time. It takes neighbours, which share a variant and so most of their specs.
std::vector<StoredRun> load_all(const std::vector<fs::path>& folders, const Sums& sums, const Plans& plans,
                                const ResultParts& keep) {
  constexpr uintmax_t kLong = 16U << 20U;
  constexpr size_t kMostThreads = 4, kPieces = 16;  // pieces of the work of a thread
  uintmax_t bytes = 0;
  for (const fs::path& folder : folders) bytes += fs::file_size(folder / "result.json");
  const size_t threads =
      bytes < kLong ? 1
                    : std::min({folders.size(), kMostThreads, size_t{std::thread::hardware_concurrency()}});
  std::vector<StoredRun> runs(folders.size());
  std::atomic<size_t> next = 0;
  const size_t neighbours = std::max(folders.size() / (threads * kPieces), size_t{1});
  const auto work = [&] {
    SpecReader specs;
    for (size_t first = next.fetch_add(neighbours); first < folders.size();
         first = next.fetch_add(neighbours))
      for (size_t i = first; i < std::min(first + neighbours, folders.size()); ++i)
        runs[i] = load_run(folders[i], sums, plans, specs, keep);
  };
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, work));
  work();
  for (auto& other : others) other.get();
  return runs;
}

void load_runs(const Sums& sums, Stored& stored, const ResultParts& keep) {
  const fs::path folder = stored.folder / "runs";
  std::map<std::string, StoredRun> known;
  for (StoredRun& run : stored.runs) known.insert_or_assign(run.id, std::move(run));
  stored.runs.clear();
  if (!fs::is_directory(folder)) return;
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path result = entry.path() / "result.json";
    if (!is_there(result)) continue;
    const auto before = known.find(entry.path().filename().string());
    if (before != known.end() && before->second.written == fs::last_write_time(result))
      stored.runs.push_back(std::move(before->second));
    else
      others.push_back(entry.path());
  }
  std::ranges::sort(others);
  std::ranges::move(load_all(others, sums, stored.plans, keep), std::back_inserter(stored.runs));
  std::ranges::sort(stored.runs, {}, &StoredRun::id);
  for (auto& run : stored.runs) {
    const auto variant = static_cast<size_t>(run.spec.variant);
    if (variant >= stored.variants.size())
      throw Error(ErrorCode::invalid_file,
                  "variant " + std::to_string(run.spec.variant) + " is not in variants.json", {},
                  (folder / run.id / "spec.json").string());
    if (lacks_plan(run.spec, stored.plans)) stored.plans[variant] = std::move(run.result.plan);
    run.result.plan.reset();
  }
}

/// Throws an Error that states what the folder is instead of a report.
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

/// The parts of results.json. The runs are separate, because they are almost all of it.
struct Results {
  Json all;  ///< with an empty list of runs
  struct Run {
    Json all;  ///< with null as result
    StoredText spec, result;
  };
  std::vector<Run> runs;
};

/// Replaces [begin, end) of the text by `instead`.
std::string replaced(std::string_view text, size_t begin, size_t end, std::string_view instead) {
  return std::string(text.substr(0, begin)) + std::string(instead) + std::string(text.substr(end));
}

/// Reads the run whose text begins at `offset` of the file.
std::optional<Results::Run> run_of(std::string_view text, size_t offset, const fs::path& file) {
  JsonCursor cursor(text);
  std::optional<StoredText> spec, result;
  std::string_view key;
  for (cursor.enter('{'); cursor.next_member(key);) {
    const size_t place = cursor.position();
    const std::string_view value = cursor.skip();
    if (key != "spec" && key != "result") continue;
    auto& part = key == "spec" ? spec : result;
    if (part) return std::nullopt;
    part = {file, offset + place, value.size()};
  }
  if (!cursor.good() || !cursor.at_end() || !spec || !result) return std::nullopt;
  const size_t begin = result->offset - offset;
  return Results::Run{parse_json(replaced(text, begin, begin + result->size, "null"), file.string()),
                      std::move(*spec), std::move(*result)};
}

/// None if the cursor can't read the text. Then parts_of_document() reads it or reports the error.
std::optional<Results> parts_of(std::string_view text, const fs::path& file) try {
  Results results;
  JsonCursor cursor(text);
  size_t begin = 0, end = 0;
  std::string_view key;
  for (cursor.enter('{'); cursor.next_member(key);) {
    if (key != "runs") {
      cursor.skip();
      continue;
    }
    if (end != 0) return std::nullopt;
    begin = cursor.position();
    for (cursor.enter('['); cursor.next_item();) {
      const size_t offset = cursor.position();
      auto run = run_of(cursor.skip(), offset, file);
      if (!run) return std::nullopt;
      results.runs.push_back(std::move(*run));
    }
    end = cursor.position();
  }
  if (!cursor.good() || !cursor.at_end() || end == 0) return std::nullopt;
  results.all = parse_json(replaced(text, begin, end, "[]"), file.string());
  return results;
} catch (const Error&) {
  return std::nullopt;
}

/// The same from a parsed document. It accepts any JSON and has precise errors.
Results parts_of_document(std::string_view text, const fs::path& file) {
  Results results{parse_stored(text, file.string()), {}};
  if (!results.all.is_object() || !results.all.value("runs", Json()).is_array()) return results;
  Json runs = Json::array();
  std::swap(runs, results.all["runs"]);
  for (Json& run : runs) {
    Results::Run& parts = results.runs.emplace_back();
    if (run.is_object() && run.contains("spec")) parts.spec.own = run["spec"].dump();
    if (run.is_object() && run.contains("result"))
      parts.result.own = std::exchange(run["result"], nullptr).dump();
    parts.all = std::move(run);
  }
  return results;
}

/// Reads a report from results.json alone, for a folder without the files of the runs.
Stored load_results(const fs::path& file, ResultParts keep) {
  keep.plan = false;  // results.json stores the plans separately
  const std::string where = file.string(), text = read_file(file);
  std::optional<Results> parts = parts_of(text, file);
  if (!parts) parts = parts_of_document(text, file);
  const Json& all = parts->all;
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
  list("runs");
  for (Results::Run& run : parts->runs) {
    check_keys(run.all, {"id", "spec", "result"}, "field", "a run", where);
    if (run.all.size() != 3 || !run.all.at("id").is_string())
      throw Error(ErrorCode::invalid_file, "a run must have 'id', 'spec' and 'result'", {}, where);
    const StoredText& raw = run.result;
    const std::string_view result =
        raw.own.empty() ? std::string_view(text).substr(raw.offset, raw.size) : raw.own;
    stored.runs.push_back({run.all.at("id"),
                           run_spec_from_json(run.all.at("spec"), where),
                           run_result_from_text(result, where, keep),
                           std::move(run.spec),
                           std::move(run.result),
                           fs::last_write_time(file),
                           {}});
    if (static_cast<size_t>(stored.runs.back().spec.variant) >= stored.variants.size())
      throw Error(ErrorCode::invalid_file, "run '" + stored.runs.back().id + "' belongs to no variant", {},
                  where);
  }
  for (const Json& probe : list("probes")) stored.probes.push_back(noise_line_from_json(probe, where));
  stored.tried = tried_from_json(part("tried"), where);
  return stored;
}
}  // namespace

std::string StoredText::read() const { return own.empty() ? read_part(file, offset, size) : own; }

void load_new_runs(Stored& stored) { load_runs(Sums(stored.folder), stored, ResultParts::of_report()); }

Stored load_report(const fs::path& folder, const ResultParts& keep) {
  const fs::path experiment = folder / "experiment.json", variants = folder / "variants.json";
  if (!is_there(experiment)) {
    if (const fs::path results = folder / "results.json"; is_there(results))
      return load_results(results, keep);
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
    context_from_json(stored.context, context.string());  // throws if the context is invalid
  }
  load_runs(sums, stored, keep);
  const fs::path noise = folder / "noise.jsonl";
  for (const Json& line : read_json_lines(noise))
    stored.probes.push_back(noise_line_from_json(line, noise.string()));
  if (const fs::path tried = folder / "tried.json"; is_there(tried))
    stored.tried = tried_from_json(sums.read(tried), tried.string());
  return stored;
}
}  // namespace optrush
