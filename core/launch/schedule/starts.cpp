#include "launch/schedule/starts.h"

#include <algorithm>

#include "base/files.h"
#include "launch/run/result.h"
#include "launch/schedule/planner.h"
#include "optrush/error.h"
#include "process/process.h"
#include "spec/run_identity.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
/// The part of a spec that determines the export: the problem and, through the sequences per step, the
/// plugins' accumulation and use of ranks; not the rung or the round.
RunSpec start_of(const RunSpec& spec) {
  RunSpec start;
  start.model_kind = spec.model_kind;
  start.model = spec.model;
  start.data = spec.data;
  start.train = spec.train;
  start.plugins = spec.plugins;
  start.plugin_path = spec.plugin_path;
  start.validate = spec.validate;  // held-out data is not trained on
  start.start = spec.start;
  return start;
}
}  // namespace

Starts::Starts(fs::path worker, const fs::path& folder)
    : worker_(std::move(worker)), folder_(fs::absolute(folder)) {
  fs::remove_all(folder_);  // left by a killed controller
}

Starts::~Starts() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

bool Starts::wanted(const External& external) {
  return std::ranges::any_of(
      external.command, [](const std::string& word) { return word.find("{start}") != std::string::npos; });
}

std::optional<fs::path> Starts::of(const RunSpec& spec, Interrupts& interrupts) const {
  const RunSpec start = start_of(spec);
  const fs::path folder = folder_ / spec_sha256(start).substr(0, 16), spec_file = folder.string() + ".json",
                 log = folder.string() + ".log", unfinished = folder.string() + ".tmp";
  if (fs::exists(folder)) return folder;
  fs::remove_all(unfinished);
  write_json(spec_file, to_json(start));
  const Limits limits{.timeout_s = spec.timeout_s};
  const ProcessEnd end = run_process(
      {{worker_, "export", "--spec", spec_file, "--out", unfinished}, worker_environment(spec), log}, limits,
      interrupts);
  if (end.kind == ProcessEnd::Kind::interrupted) return std::nullopt;
  if (end.kind != ProcessEnd::Kind::exited || end.code != 0)
    throw Error(ErrorCode::crashed, "the initial state could not be exported: " +
                                        describe_bad_end(end, limits).reason + "\n" + log_tail(log));
  fs::rename(unfinished, folder);
  return folder;
}
}  // namespace optrush
