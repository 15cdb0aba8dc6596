#include <ATen/Parallel.h>

#include <chrono>
#include <set>

#include "base/files.h"
#include "base/listed_files.h"
#include "base/number_text.h"
#include "base/part_times.h"
#include "base/seconds_since.h"
#include "data/batches.h"
#include "machine/cores.h"
#include "machine/environment.h"
#include "machine/stand_in.h"
#include "measure/memory.h"
#include "optrush/host/resolve.h"
#include "spec/run_identity.h"
#include "spec/spec_json.h"
#include "spec/state_files.h"
#include "train/interleaving.h"
#include "train/measurement.h"
#include "train/run_end.h"
#include "train/run_setup.h"
#include "train/state.h"
#include "train/trainer.h"
#include "worker/commands.h"
#include "worker/device.h"
#include "worker/metrics_log.h"
#include "worker/predict.h"
#include "worker/run_failure.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
std::optional<DataPosition> load_state_from(Session& session, const fs::path& folder) {
  const StateFolder state(folder);
  return load_state(session, [&](const std::string& key) { return state.read(key); });
}

/// Loads the state that this run saved before it was interrupted, and its record.
void resume(Session& session, const fs::path& folder, int64_t step, Continuation& run) try {
  auto record = saved_record(folder, 0);
  const bool same_ranks = record && record->at("about").at("spec") == run.about.at("spec");
  const auto own = same_ranks ? saved_record(folder, session.ranks().rank) : std::nullopt;
  if (!record || (same_ranks && !own))
    throw Error(ErrorCode::invalid_file, "the record beside the state is missing or was changed");
  run.read = load_state_from(session, folder);
  if (session.first_step() != step)
    throw Error(ErrorCode::invalid_file, "it is the state of step " + std::to_string(session.first_step()) +
                                             ", not of step " + std::to_string(step));
  if (own)
    record->update(*own);  // what this rank alone knows
  else
    record->update({{"fingerprint", nullptr}, {"joules", nullptr}});  // of another mesh
  run.before = std::move(*record);
} catch (const Error& e) {
  throw Error(e.code(), "the run cannot continue from its saved state: " + e.message(),
              "remove the state, then rerun the run with --resume --retry",
              e.where().empty() ? folder.string() : e.where());
}

RunResult train_spec(const RunSpec& spec, Ranks ranks, const TrainFiles& files,
                     std::optional<int64_t> from_step, const MetricsSink& sink) {
  const auto start = std::chrono::steady_clock::now();
  const auto turns = Interleaving::from_environment(ranks);
  install_cpu_memory_tracking();
  PartTimes parts;  // times before the session exists
  const at::Device device =
      parts.time("device opened", [&] { return open_device(spec.device, ranks.local_rank); });
  ranks.gpu = gpu_identity(device);
  const int64_t threads = spec.threads > 0 ? spec.threads : usual_threads(ranks.local_size);
  at::set_num_threads(static_cast<int>(threads));

  sink({{"event", "phase"}, {"name", "loading"}});
  const Catalogue catalogue = parts.time("plugins described", [&] { return Catalogue::of(spec); });
  check_needs(spec, catalogue);
  const auto session =
      parts.time("plugins loaded", [&] { return RunSetup::open(spec, catalogue, device, ranks); });
  for (const auto& [part, seconds] : parts.seconds()) session->log().setup_times().add(part, seconds);
  if (is_stand_in(device_name(device))) session->compute_nothing();
  session->log().show_progress([&](const std::string& phase) {
    sink({{"event", "phase"}, {"name", phase}});
  });
  if (ranks.size > 1) session->log().enter_phase("meeting");
  session->connect();
  session->log().enter_phase("building");
  session->declare();
  const Plan plan = make_plan(*session);
  session->log().enter_phase("placing");
  session->make_ready();
  Continuation run{.about = {{"spec", spec_sha256(spec)},
                             {"training", training_sha256(spec)},
                             {"ranks", spec.train.world_size},
                             {"global_batch", plan.problem.global_batch},
                             {"plugins", record::written(plan.plugins)}},
                   .before = {}};
  // Only needed by a run that saves its state.
  if (spec.save.every > 0) run.about["inputs"] = sum_of_inputs(spec);
  if (from_step)
    resume(*session, files.state, *from_step, run);
  else if (!spec.start.empty() && !spec.weights_only)
    run.read = load_state_from(*session, spec.start);
  const double setup_seconds = seconds_since(start);
  RunResult result = train(*session, sink, turns.get(), files, run);
  session->recipe().fire(Event::finished, *session);
  result.device = device_name(device);
  result.on_gpu = device.is_cuda();
  result.threads = static_cast<double>(threads);
  result.plan = plan;
  result.plugins = plan.plugins;
  result.setup_seconds = setup_seconds;
  result.compile_seconds = session->log().compile_seconds();
  result.notes = session->log().notes();
  add_ranks(result, *session, device.is_cuda() ? device.str() + " " + result.device : "cpu");
  if (session->ranks().sharing > 1) result.withhold_speeds();
  result.warnings = session->log().warnings();
  if (ranks.rank != 0) {  // rank 0 has the same
    result.steps.clear();
    result.validation.clear();
    result.saved.clear();
  }
  return result;
}

/// Documents are parsed when they are opened. A plan parses what takes a moment.
constexpr int64_t kMostToParse = int64_t{16} << 20;

/// The bytes of the documents that a run trains and validates on.
int64_t bytes_of_documents(const RunSpec& spec) {
  int64_t sum = 0;
  for (const DataSpec* data : std::set{&spec.data, &validation_data(spec)})  // often the same
    if (made_of_documents(*data))
      for (const ListedFile& file : listed_files(data->path, Unreadable::skipped)) sum += file.size;
  return sum;
}

RunResult outcome_of(const RunSpec& spec, const Ranks& ranks, const TrainFiles& files,
                     std::optional<int64_t> from_step, const MetricsSink& sink) {
  try {
    return train_spec(spec, ranks, files, from_step, sink);
  } catch (const std::exception& e) {
    return failure_of(e);
  }
}
}  // namespace

Ranks RankRequest::ranks_of(int64_t world_size) const {
  if (world_size == 1) return {};
  if (rank < 0) return Ranks::from_environment(world_size);
  if (rank >= world_size)
    throw UsageError("--rank is " + std::to_string(rank) + " of " + std::to_string(world_size));
  Ranks ranks{.rank = rank, .size = world_size, .local_rank = local_rank, .local_size = local_size};
  ranks.timeout = collective_timeout();
  ranks.meet_at(store);
  return ranks;
}

int run_command(const RankRequest& request) {
  fs::create_directories(request.out);
  const RunSpec spec = run_spec_from_json(read_json(request.spec), request.spec.string());
  const Ranks ranks = request.ranks_of(spec.train.world_size);
  MetricsLog metrics(request.out / "metrics.jsonl", ranks.rank, ranks.size);
  const MetricsSink sink = [&](const Json& event) { metrics.append(event); };
  const TrainFiles files{.trace = request.out / "trace.json",
                         .state = request.state.empty() ? request.out / "state" : request.state};
  const RunResult result = outcome_of(spec, ranks, files, request.from_step, sink);
  write_json(request.out / "result.json", to_json(result));
  return 0;
}

int plan_command(const fs::path& spec_file, const fs::path& out, const std::string& architecture) {
  const RunSpec spec = run_spec_from_json(read_json(spec_file), spec_file.string());
  const auto session = RunSetup::open(spec, at::kCPU, Ranks::planned(0, spec.train.world_size));
  session->declare();  // without connect(): a plan joins no process group
  Plan plan = make_plan(*session);
  RunSpec timed = spec;
  const RunSpec& read = session->spec();
  if (const int64_t size = bytes_of_documents(read); size <= kMostToParse) {
    const Batches batches(read, session->model(), session->mesh(), at::kCPU,
                          session->recipe().rows.resolve({}, one_document_each));
    const RunEnd end(read, batches.sequences_of_epoch(), plan.problem.global_batch);
    if (read.train.epochs > 0) timed.train.steps = end.steps() - read.train.warmup;
  } else if (spec.variant == 0) {  // the rungs mostly have the same data
    plan.notes.push_back("the documents (" + bytes(static_cast<double>(size)) +
                         ") are read when a run starts; a plan does not check them");
  }
  write_json(out, to_json(plan));
  // Last: it calls plugins with tensors that they may not expect, and the plan is valid without it.
  add_forecast(plan, timed, architecture, session.get());
  write_json(out, to_json(plan));
  return 0;
}
}  // namespace optrush
