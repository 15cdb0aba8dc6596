#pragma once
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "../../support/error_of.h"
#include "../../support/folders.h"
#include "analysis/analysis.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "experiment/experiment.h"
#include "launch/controller.h"
#include "launch/progress.h"
#include "launch/run/result.h"
#include "spec/spec_json.h"

namespace optrush::testing {
inline const std::filesystem::path kFakeWorker =
    std::filesystem::path(tests_folder()) / "unit/launch/fake_worker.py";

/// The message for a SIGKILL that does not come from the kernel. It depends on the counters that this system
/// has.
inline BadEnd killed_by_hand() {
  const OomKills now = OomKills::read();
  return describe_bad_end(
      {.kind = ProcessEnd::Kind::signalled, .signal = SIGKILL, .out_of_memory = now.rose_since(now)}, {});
}

/// Runs experiments with a fake worker in a temporary folder.
class Launch : public ::testing::Test {
 protected:
  Launch() {
    setenv("FAKE_WORKER_STARTS", starts_file_.c_str(), 1);
    unsetenv("FAKE_CPU");
    unsetenv("OMP_NUM_THREADS");  // the caller of the tests may have set it
  }

  /// A ladder of rungs without settings. The name of a rung tells the fake worker how to end.
  static Experiment experiment(const std::vector<std::string>& rungs, int64_t rounds = 1) {
    Experiment e;
    e.name = "fake";
    e.rounds = rounds;
    e.interleave = Interleave::off;
    e.base = merged(RunSpec{}, {{"train", {{"steps", 10}, {"warmup", 3}}}}, "fixture");
    Part ladder;
    for (const auto& name : rungs) ladder.rungs.push_back({.name = name, .where = "fake.lua:1"});
    if (!rungs.empty()) e.parts.push_back(ladder);
    return e;
  }

  /// A ladder of a and b, and the ablation of both.
  static Experiment ladder_and_ablation(Experiment e) {
    std::vector<Rung> rungs;
    for (const char* name : {"a", "b"})
      rungs.push_back({.name = name, .settings = {{"env", {{name, "1"}}}}, .where = "fake.lua:1"});
    e.parts = {{.rungs = rungs}, {.arrangement = Arrangement::ablation, .rungs = rungs}};
    return e;
  }

  /// The runs of the journal's entries with this event.
  std::vector<std::string> events(const std::string& event) const {
    std::vector<std::string> runs;
    std::istringstream lines(read_file(report() / "journal.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const Json entry = Json::parse(line); entry.at("event") == event)
        runs.push_back(entry.value("run", ""));
    return runs;
  }

  RunRequest request() const { return {.worker = kFakeWorker, .reports = folder_.path(), .probe_s = 0}; }
  RunRequest resuming() const {
    RunRequest r = request();
    r.resume = true;
    return r;
  }

  RunOutcome run(const Experiment& e, const RunRequest& r) {
    std::filesystem::remove(starts_file_);
    Progress progress(silent());
    return run_experiment(Expanded(e), r, progress);
  }
  RunOutcome run(const Experiment& e) { return run(e, request()); }

  /// Ids of the runs that were started by the last run(), in order.
  std::vector<std::string> starts() const {
    std::vector<std::string> lines;
    if (!std::filesystem::exists(starts_file_)) return lines;
    std::istringstream text(read_file(starts_file_));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  std::filesystem::path report(const std::string& label = "local") const { return folder_ / "fake" / label; }
  Json result(const std::string& id) const { return read_json(report() / "runs" / id / "result.json"); }
  std::string status(const std::string& id) const { return result(id).at("status"); }
  std::string reason(const std::string& id) const { return result(id).at("reason"); }

  /// A terminal that discards its output.
  static Terminal silent() { return {.fd = -1}; }

  const TemporaryFolder folder_;
  const std::filesystem::path starts_file_ = folder_ / "starts";
};
}  // namespace optrush::testing
