#include "results/stored.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <future>
#include <sstream>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "optrush/error.h"
#include "results/context.h"
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
    static constexpr std::string_view kLine = "\n  \"round\": ";  // as write_json() writes it
    const size_t before = text.find(kLine);
    if (before == std::string::npos) return whole();
    int64_t round = 0;
    const char *const number = text.data() + before + kLine.size(), *const end = text.data() + text.size();
    const auto [after, failed] = std::from_chars(number, end, round);
    if (failed != std::errc() || round < 0 || after == end || *after != ',') return whole();
    const auto [known, is_new] = known_.try_emplace(text.substr(0, before).append(after, end));
    if (is_new) known->second = whole();
    RunSpec spec = known->second;
    spec.round = round;
    return spec;
  }

 private:
  std::unordered_map<std::string, RunSpec> known_;
};

StoredRun load_run(const fs::path& folder, const Journal& journal, const Plans& plans, SpecReader& specs,
                   ResultParts keep) {
  const fs::path spec_file = folder / "spec.json", result = folder / "result.json";
  const std::string spec_text = journal.text(spec_file), result_text = journal.text(result);
  RunSpec spec = specs.read(spec_text, spec_file.string());
  keep.plan = lacks_plan(spec, plans);
  return {folder.filename().string(), std::move(spec),
          run_result_from_text(result_text, result.string(), keep), traces_of(folder)};
}

void load_plans(const fs::path& file, const Journal& journal, Stored& stored) {
  stored.plans.resize(stored.variants.size());
  if (!is_there(file)) return;
  const Json plans = journal.read(file);
  if (!plans.is_array() || plans.size() != stored.variants.size())
    throw Error(ErrorCode::invalid_file,
                "must be a list with one plan for each of the " + counted(stored.variants.size(), "variant"),
                {}, file.string());
  for (size_t i = 0; i < plans.size(); ++i)
    stored.plans[i] = optional_plan_from_json(plans[i], file.string());
}

/// The runs of a report that was packed to be published: {"id", "spec", "result"} on each line.
std::vector<StoredRun> load_packed(const fs::path& file) {
  std::vector<StoredRun> runs;
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const std::string where = file.string() + ":" + std::to_string(runs.size() + 1);
    const Json run = parse_stored(line, where);
    check_keys(run, {"id", "spec", "result"}, "field", "a run", where);
    if (run.size() != 3 || !run.at("id").is_string())
      throw Error(ErrorCode::invalid_file, "a run must have 'id', 'spec' and 'result'", {}, where);
    runs.push_back({run.at("id"), run_spec_from_json(run.at("spec"), where),
                    run_result_from_json(run.at("result"), where)});
  }
  return runs;
}

void read_runs(const Journal& journal, Stored& stored, const ResultParts& keep) {
  const fs::path folder = stored.folder / "runs", packed = stored.folder / "runs.jsonl";
  if (fs::is_directory(folder)) {
    auto finished = folders_in(folder);
    std::erase_if(finished, [](const fs::path& run) { return !is_there(run / "result.json"); });
    stored.runs = load_runs(finished, journal, stored.plans, keep);
  } else if (is_there(packed)) {
    stored.runs = load_packed(packed);
  }
  std::ranges::sort(stored.runs, {}, &StoredRun::id);
  for (auto& run : stored.runs) {
    if (static_cast<size_t>(run.spec.variant) >= stored.variants.size())
      throw Error(ErrorCode::invalid_file,
                  "variant " + std::to_string(run.spec.variant) + " is not in variants.json", {},
                  (folder / run.id / "spec.json").string());
    move_late_plan(run, stored.plans);
  }
}

/// Throws an Error that states what the folder is instead of a report.
[[noreturn]] void throw_no_report(const fs::path& folder) {
  const std::string what = "'" + folder.string() + "' is not a report folder: ";
  if (!fs::is_directory(folder))
    throw Error(ErrorCode::missing_file, what + "the folder does not exist",
                "give reports/<experiment>/<label>");
  if (is_there(folder / "report.md") || is_there(folder / "results.json"))
    throw Error(ErrorCode::missing_file, what + "experiment.json is missing",
                "copy the whole folder of the report. If it has no more, an earlier version wrote it: run "
                "the experiment again, or render it with that version");
  std::vector<std::string> labels;
  for (const fs::path& label : folders_in(folder))
    if (is_there(label / "experiment.json")) labels.push_back(label.filename().string());
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
}  // namespace

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

// With several threads, because reading takes most of the time of a report of long runs. Each thread holds
// one text at a time. It takes neighbours, which share a variant and so most of their specs.
std::vector<StoredRun> load_runs(const std::vector<fs::path>& folders, const Journal& journal,
                                 const Plans& plans, const ResultParts& keep, bool skip_invalid) {
  constexpr uintmax_t kLong = 16U << 20U;
  constexpr size_t kMostThreads = 4, kPieces = 16;  // pieces of the work of a thread
  uintmax_t bytes = 0;
  std::error_code unknown;
  for (const fs::path& folder : folders)
    if (const auto size = fs::file_size(folder / "result.json", unknown); !unknown) bytes += size;
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
      for (size_t i = first; i < std::min(first + neighbours, folders.size()); ++i) try {
          runs[i] = load_run(folders[i], journal, plans, specs, keep);
        } catch (const Error&) {
          if (!skip_invalid) throw;
        }
  };
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, work));
  work();
  for (auto& other : others) other.get();
  std::erase_if(runs, [](const StoredRun& run) { return run.id.empty(); });
  return runs;
}

void move_late_plan(StoredRun& run, Plans& plans) {
  if (lacks_plan(run.spec, plans)) plans[static_cast<size_t>(run.spec.variant)] = std::move(run.result.plan);
  run.result.plan.reset();
}

Stored load_report(const fs::path& folder, const ResultParts& keep) {
  const fs::path experiment = folder / "experiment.json", variants = folder / "variants.json";
  if (!is_there(experiment)) throw_no_report(folder);
  const Journal journal(folder);
  Stored stored;
  stored.folder = folder;
  stored.experiment = experiment_from_json(journal.read(experiment), experiment.string());
  for (const auto& variant : journal.read(variants))
    stored.variants.push_back(variant_from_json(variant, variants.string()));
  check_order(stored.variants, variants.string());
  load_plans(folder / "plans.json", journal, stored);
  if (const fs::path context = folder / "context.json"; is_there(context)) {
    stored.context = journal.read(context);
    context_from_json(stored.context, context.string());  // throws if the context is invalid
  }
  read_runs(journal, stored, keep);
  const fs::path noise = folder / "noise.jsonl";
  for (const Json& line : read_json_lines(noise))
    stored.probes.push_back(fields_of<NoiseLine>().read(line, noise.string()));
  if (const fs::path tried = folder / "tried.json"; is_there(tried))
    stored.tried = fields_of<Tried>().read(journal.read(tried), tried.string());
  return stored;
}
}  // namespace optrush
