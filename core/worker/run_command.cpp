#include <ATen/Parallel.h>

#include <chrono>
#include <thread>

#include "base/files.h"
#include "measure/memory.h"
#include "train/opened_run.h"
#include "train/trainer.h"
#include "worker/commands.h"
#include "worker/device.h"
#include "worker/machine_offer.h"
#include "worker/plan.h"
#include "worker/predict.h"
#include "worker/run_failure.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
using SteadyClock = std::chrono::steady_clock;

Json train_spec(const RunSpec& spec, const MetricsSink& sink) {
  const auto start = SteadyClock::now();
  install_cpu_memory_tracking();
  const at::Device device = open_device(spec.device);
  const auto threads =
      spec.threads > 0 ? spec.threads : static_cast<int64_t>(std::thread::hardware_concurrency());
  at::set_num_threads(static_cast<int>(threads));

  sink({{"event", "phase"}, {"name", "loading"}});
  check_needs(spec);
  OpenedRun run(spec, device);
  Session& session = run.session();
  session.show_progress([&](const std::string& phase) { sink({{"event", "phase"}, {"name", phase}}); });
  session.enter_phase("building");
  run.declare();
  Json result;
  result["device"] = {
      {"type", device.is_cuda() ? "cuda" : "cpu"}, {"name", device_name(device)}, {"threads", threads}};
  result["plan"] = make_plan(session, run.plugins());
  result["plugins"] = result["plan"]["plugins"];
  run.make_ready();
  result["setup_seconds"] = std::chrono::duration<double>(SteadyClock::now() - start).count();
  result.update(train(session, sink));
  run.recipe().fire(Event::finished, session);
  result["compile_seconds"] = session.compile_seconds();
  result["notes"] = session.notes();
  return result;
}

Json outcome_of(const RunSpec& spec, const MetricsSink& sink) {
  try {
    Json result = {{"status", "ok"}, {"reason", ""}};
    result.update(train_spec(spec, sink));
    return result;
  } catch (const std::exception& e) {
    return failure_of(e);
  }
}
}  // namespace

int run_command(const fs::path& spec_file, const fs::path& out) {
  fs::create_directories(out);
  const RunSpec spec = run_spec_from_json(read_json(spec_file), spec_file.string());
  const auto metrics = out / "metrics.jsonl";
  fs::remove(metrics);
  Json result = {{"schema_version", 1}};
  result.update(outcome_of(spec, [&](const Json& line) { append_line(metrics, line.dump()); }));
  write_json(out / "result.json", result);
  return 0;
}

int plan_command(const fs::path& spec_file, const fs::path& out) {
  const RunSpec spec = run_spec_from_json(read_json(spec_file), spec_file.string());
  OpenedRun run(spec, at::kCPU);
  run.session().declare();  // nothing is meshed: a plan joins no process group
  Json plan = make_plan(run.session(), run.plugins());
  write_json(out, plan);
  // Last: it calls plugins with tensors that they may not expect, and a plan that is written counts.
  add_forecast(plan, spec);
  write_json(out, plan);
  return 0;
}
}  // namespace optrush
