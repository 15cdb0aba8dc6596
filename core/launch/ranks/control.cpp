#include "launch/ranks/control.h"

#include <map>
#include <vector>

#include "base/text.h"
#include "build_info.h"
#include "machine/environment.h"
#include "machine/kernel_files.h"
#include "optrush/error.h"
#include "results/run_result.h"
#include "spec/read_fields.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
/// Reads an exit code or a signal.
int small_number(const Json& json, const char* key) {
  const auto number = required<int64_t>(json, key);
  if (number < 0 || number > 255)
    throw Error(ErrorCode::network, std::string("field '") + key + "' must be from 0 to 255");
  return static_cast<int>(number);
}

/// What rank 0 uses of the result of another rank. Rank 0's own result has the measurements of all ranks.
RunResult as_sent(const RunResult& result) {
  constexpr size_t kLongestReason = 1 << 16;
  RunResult sent(BadEnd{result.status, result.reason.substr(0, kLongestReason)});
  sent.code = result.code;
  sent.where = result.where;
  sent.cause = result.cause;
  sent.requested_bytes = result.requested_bytes;
  return sent;
}
}  // namespace

HardwareNames read_hardware_names(const fs::path& root) {
  std::map<std::string, int64_t> models;
  std::error_code none;
  for (fs::directory_iterator gpu(root / "proc/driver/nvidia/gpus", none), end; !none && gpu != end;
       gpu.increment(none))
    if (auto model = key_values(kernel_text(gpu->path() / "information"))["Model"]; !model.empty())
      ++models[model];
  std::vector<std::string> gpus;
  for (const auto& [model, number] : models) gpus.push_back(std::to_string(number) + " x " + model);
  return {key_values(kernel_text(root / "proc/cpuinfo"))["model name"], join(gpus)};
}

Hello hello_of(const Launched& here, const std::string& script_sha256) {
  return {.rank = here.rank,
          .size = here.size,
          .local_rank = here.local_rank,
          .local_size = here.local_size,
          .host = host_name(),
          .job = here.job,
          .version = OPTRUSH_VERSION,
          .script_sha256 = script_sha256,
          .hardware = read_hardware_names()};
}

Json to_json(const Hello& hello) {
  return {{"type", "hello"},
          {"rank", hello.rank},
          {"size", hello.size},
          {"local_rank", hello.local_rank},
          {"local_size", hello.local_size},
          {"host", hello.host},
          {"job", hello.job},
          {"version", hello.version},
          {"script_sha256", hello.script_sha256},
          {"cpu", hello.hardware.cpu},
          {"gpus", hello.hardware.gpus}};
}

Hello hello_from_json(const Json& json) {
  return {.rank = required<int64_t>(json, "rank"),
          .size = required<int64_t>(json, "size"),
          .local_rank = required<int64_t>(json, "local_rank"),
          .local_size = required<int64_t>(json, "local_size"),
          .host = required<std::string>(json, "host"),
          .job = required<std::string>(json, "job"),
          .version = required<std::string>(json, "version"),
          .script_sha256 = required<std::string>(json, "script_sha256"),
          .hardware = {required<std::string>(json, "cpu"), required<std::string>(json, "gpus")}};
}

std::string refusal(const Hello& rank_0, const Hello& other) {
  const auto differ = [](const std::string& what, const std::string& theirs, const std::string& ours) {
    return what + ": " + theirs + ", but rank 0 " + ours;
  };
  if (other.job != rank_0.job)
    return differ("it belongs to another job", "'" + other.job + "'", "belongs to '" + rank_0.job + "'");
  if (other.size != rank_0.size || other.rank < 1 || other.rank >= rank_0.size)
    return differ("it was started with a different number of ranks",
                  "rank " + std::to_string(other.rank) + " of " + std::to_string(other.size),
                  "as one of " + std::to_string(rank_0.size));
  if (other.version != rank_0.version)
    return differ("it is a different version of optrush", other.version, "has " + rank_0.version);
  if (other.script_sha256 != rank_0.script_sha256)
    return differ("it has a different script", "sha256 " + other.script_sha256.substr(0, 12),
                  "has " + rank_0.script_sha256.substr(0, 12));
  return {};
}

Json to_json(const RankEnd& end) {
  const bool signalled = end.end.kind == ProcessEnd::Kind::signalled;
  return {{"type", "end"},
          {signalled ? "signal" : "code", signalled ? end.end.signal : end.end.code},
          {"out_of_memory", end.end.out_of_memory ? Json(*end.end.out_of_memory) : Json()},
          {"result", end.result ? to_json(as_sent(*end.result)) : Json()},
          {"problem", end.problem},
          {"phase", end.state.phase},
          {"steps", end.state.steps},
          {"log", end.log}};
}

RankEnd rank_end_from_json(const Json& json) {
  RankEnd end;
  const bool signalled = json.contains("signal");
  if (signalled) end.end.kind = ProcessEnd::Kind::signalled;
  (signalled ? end.end.signal : end.end.code) = small_number(json, signalled ? "signal" : "code");
  end.end.out_of_memory = optional_field<bool>(json, "out_of_memory");
  if (!json.contains("result")) throw Error(ErrorCode::network, "field 'result' is missing");
  if (const Json& result = json.at("result"); !result.is_null())
    end.result = run_result_from_json(result, "a rank's result");
  end.problem = required<std::string>(json, "problem");
  end.state.phase = required<std::string>(json, "phase");
  end.state.steps = required<int64_t>(json, "steps");
  end.log = required<std::string>(json, "log");
  return end;
}

Json to_json(const Seen& seen) {
  return {{"type", "seen"}, {"phase", seen.phase}, {"steps", seen.steps}, {"log", seen.log}};
}

Seen seen_from_json(const Json& json) {
  return {.phase = required<std::string>(json, "phase"),
          .steps = required<int64_t>(json, "steps"),
          .log = required<std::string>(json, "log")};
}

int stop_signal_from_json(const Json& json) {
  const int number = small_number(json, "number");
  if (!asks_to_stop(number))
    throw Error(ErrorCode::network, "field 'number' must be SIGINT, SIGTERM or another stop signal");
  return number;
}

Json to_json(const ClosingMessage& closing, const char* type) {
  return {{"type", type}, {"code", closing.code}, {"reason", closing.reason}};
}

ClosingMessage closing_message_from_json(const Json& json) {
  return {.code = small_number(json, "code"), .reason = required<std::string>(json, "reason")};
}

double join_timeout_s() { return environment_seconds("OPTRUSH_JOIN_TIMEOUT", 60); }

double save_timeout_s() { return environment_seconds("OPTRUSH_SAVE_TIMEOUT", 25); }

std::string advice_on_joining(const Launched& here) {
  return "check that " + here.launcher +
         " starts this command for every rank; check that the other machines can reach " + here.address +
         " (MASTER_ADDR), and that no firewall blocks port " + std::to_string(here.ports.front()) +
         "; set OPTRUSH_CONTROL_PORT for another port, or OPTRUSH_JOIN_TIMEOUT to wait longer than " +
         std::to_string(static_cast<int64_t>(join_timeout_s())) + " s";
}
}  // namespace optrush
