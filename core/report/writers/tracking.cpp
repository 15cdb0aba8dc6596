#include "report/writers/tracking.h"

#include <algorithm>
#include <cmath>

#include "analysis/quantities.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "optrush/error.h"
#include "process/process.h"
#include "report/writers/writers.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// Sets a value if it is known.
void put(Json& values, const std::string& name, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) values[name] = *value;
}

/// {"train": {"lr": 1}} becomes {"train.lr": 1}; a list becomes a text.
void flatten_options(const std::string& name, const Json& value, Json& out) {
  if (value.is_object()) {
    for (const auto& [key, item] : value.items())
      flatten_options(name.empty() ? key : name + "." + key, item, out);
  } else if (value.is_array()) {
    const auto text = [](const Json& item) {
      return item.is_string() ? item.get<std::string>() : item.dump();
    };
    if (!value.empty()) out[name] = join(texts_of(value, text));
  } else if (!value.is_null() && !(value.is_string() && value.get_ref<const std::string&>().empty())) {
    out[name] = value;
  }
}

Json hyperparameters_of(const RunSpec& spec) {
  Json out = Json::object();
  std::vector<std::string> stack;
  for (const PluginUse& use : spec.plugins) {
    stack.push_back(use.name);
    flatten_options("plugin." + use.name, use.options, out);
  }
  out["stack"] = stack.empty() ? "none" : join(stack, " + ");
  const Json all = to_json(spec);
  for (const char* part : {"model_kind", "model", "data", "train", "device", "threads", "env"})
    if (const auto found = all.find(part); found != all.end()) flatten_options(part, *found, out);
  return out;
}

/// Trained tokens are listed beside processed ones, if some run of the report has fewer.
Json step_of(const StepResult& step, bool fewer) {
  Json values = Json::object();
  put(values, "loss", step.loss);
  put(values, "grad_norm", step.grad_norm);
  put(values, "learning_rate", step.learning_rate);
  // Warm-up steps have no speed.
  if (step.timed && step.seconds > 0) {
    put(values, "tokens_per_second", static_cast<double>(step.tokens) / step.seconds);
    if (fewer) put(values, "trained_tokens_per_second", static_cast<double>(step.trained) / step.seconds);
    put(values, "step_seconds", step.seconds);
    for (const auto& [phase, seconds] : step.phases) put(values, "phase/" + phase, seconds);
  }
  return {{"step", step.step}, {"seconds", step.seconds}, {"values", std::move(values)}};
}

Json summary_of(const Analysis& a, const RunResult& result, const Row& row, bool fewer) {
  Json summary = Json::object();
  for (const Quantity& q : quantities())
    if (!q.run.empty() && (fewer || !q.of_fewer)) put(summary, "run/" + q.run, q.of_run(result));
  for (const auto& [phase, seconds] : result.phases) put(summary, "run/phase/" + phase, seconds);
  for (const Quantity& q : quantities())
    if (!q.tracked.empty() && (fewer || !q.of_fewer)) put(summary, "rung/" + q.tracked, number_of(q, a, row));
  return summary;
}

constexpr double kExportTimeout = 600;
constexpr int kMissing = 3;  ///< exit code of tracking.py for a missing package

/// Runs of two exports in one folder would be shown together.
void require_new(const fs::path& folder) {
  if (fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder)))
    throw Error(ErrorCode::conflict, "is there already", "remove it, or name another with --out",
                folder.string());
}

void run_script(Json job, const std::string& tracker, const fs::path& folder) {
  const fs::path python = project_python();
  if (python.empty())
    throw Error(ErrorCode::missing_requirement,
                "there is no Python environment, which writing for " + tracker + " needs",
                "./optrush setup makes one; OPTRUSH_PYTHON names another; --to csv needs none");
  job.update({{"tracker", tracker}, {"folder", fs::absolute(folder).string()}});
  const TemporaryFolder scratch;
  const fs::path file = scratch.path() / "job.json", log = scratch.path() / "log.txt";
  write_json(file, job);
  Interrupts interrupts;
  const fs::path script = Installation::of_this_program().scripts / "trackers/tracking.py";
  const ProcessEnd end = run_process({{python, script, file}, {}, log}, {kExportTimeout}, interrupts);
  if (end.ok()) return;
  const std::string said = last_line(read_file(log));
  if (end.kind == ProcessEnd::Kind::exited && end.code == kMissing)
    throw Error(ErrorCode::missing_requirement,
                python.string() + " has no package '" + said + "', which writing for " + tracker + " needs",
                python.string() + " -m pip install " + said);
  throw Error(ErrorCode::missing_requirement, "writing for " + tracker + " did not end well: " + said, "",
              folder.string());
}
}  // namespace

Json tracked_runs(const Analysis& a) {
  Json runs = Json::array();
  const bool fewer =
      std::ranges::any_of(a.rows, [](const Row& row) { return row.trains_on_fewer() || row.pads(); });
  for (const StoredRun& run : a.runs) {
    const Row* row = a.row(run.spec.variant);
    if (run.result.steps.empty() || row == nullptr) continue;
    Json hyperparameters = hyperparameters_of(run.spec), steps = Json::array();
    if (!row->base.differs.empty()) hyperparameters["differs_from_base"] = row->base.differs;
    if (!row->previous.differs.empty()) hyperparameters["differs_from_previous"] = row->previous.differs;
    for (const StepResult& step : run.result.steps) steps.push_back(step_of(step, fewer));
    runs.push_back({{"id", run.id},
                    {"rung", row->name},
                    {"purpose", to_string(run.spec.purpose)},
                    {"round", run.spec.round + 1},
                    {"hyperparameters", std::move(hyperparameters)},
                    {"steps", std::move(steps)},
                    {"summary", summary_of(a, run.result, *row, fewer)}});
  }
  return {{"experiment", a.experiment.name}, {"runs", std::move(runs)}};
}

void write_tracked(const Analysis& a, const std::string& tracker, const fs::path& folder) {
  refuse_stand_in(a.context, folder.string());
  if (tracker == "csv") {
    fs::create_directories(folder);
    write_file(folder / "steps.csv", steps_csv(a));
    write_file(folder / "runs.csv", runs_csv(a));
    write_file(folder / "rungs.csv", csv(a));
    return;
  }
  require_new(folder);
  run_script(tracked_runs(a), tracker, folder);
}
}  // namespace optrush
