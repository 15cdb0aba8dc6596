#include "launch/run/external_run.h"

#include <algorithm>
#include <set>

#include "analysis/numbers/statistics.h"
#include "base/files.h"
#include "base/number_text.h"
#include "base/text.h"
#include "launch/fork_server.h"
#include "launch/run/metrics_tail.h"
#include "machine/cores.h"
#include "machine/environment.h"
#include "machine/python.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

Command external_command(const External& external, const RunSpec& spec, const fs::path& run_folder,
                         const fs::path& worker, const fs::path& start) {
  const fs::path folder = fs::absolute(run_folder);
  const std::string spec_file = folder / "spec.json", out = folder / "result.json",
                    metrics = folder / "metrics.jsonl",
                    trace = spec.trace ? (folder / "trace.json").string() : "",
                    worker_file = fs::absolute(worker), world_size = std::to_string(spec.train.world_size);
  Command command{.log = folder / "log.txt", .folder = external.folder};
  const std::vector<std::pair<std::string, std::string>> values = {
      {"{python}", project_python().string()},
      {"{spec}", spec_file},
      {"{out}", out},
      {"{metrics}", metrics},
      {"{trace}", trace},
      {"{start}", start.string()},
      {"{worker}", worker_file},
      {"{world_size}", world_size},
      {"{seed}", std::to_string(spec.train.seed)}};
  for (const auto& word : full_command(external)) command.arguments.push_back(filled_in(word, values));
  command.environment = {{"OPTRUSH_SPEC", spec_file},     {"OPTRUSH_OUT", out},
                         {"OPTRUSH_METRICS", metrics},    {"OPTRUSH_TRACE", trace},
                         {"OPTRUSH_WORKER", worker_file}, {"OPTRUSH_WORLD_SIZE", world_size}};
  const auto add = [&](const auto& variables) {
    command.environment.insert(command.environment.end(), variables.begin(), variables.end());
  };
  // A program with several ranks starts them itself. Each gets its share of the cores, like our ranks.
  const int64_t ranks = spec.train.world_size, cores = usable_cores();
  add(worker_environment(spec, ranks > 1 ? share_of_cores(ranks, cores, cores) : 0));
  // Programs import the package optimization_rush. Their own packages follow.
  const auto own = spec.environment.find("PYTHONPATH");
  const std::string packages =
      own == spec.environment.end() ? environment_variable("PYTHONPATH") : own->second;
  command.environment.emplace_back("PYTHONPATH", path_with_our_package(packages));
  if (!external.preload.empty()) command.environment.emplace_back("LD_PRELOAD", join(external.preload, ":"));
  return command;
}

void keep_printed_result(const fs::path& run_folder) {
  const fs::path out = run_folder / "result.json", log = run_folder / "log.txt";
  if (is_there(out) || !fs::exists(log)) return;
  const std::string text = read_file(log);
  for (size_t at = text.size(); at != std::string::npos && at > 0;) {
    at = text.rfind('{', at - 1);
    if (at == std::string::npos) return;
    if (at > 0 && text[at - 1] != '\n') continue;
    const std::string_view rest = std::string_view(text).substr(at);
    for (const auto& part : {rest, rest.substr(0, rest.find('\n'))})
      if (const Json result = Json::parse(part, nullptr, false);
          result.is_object() && result.contains("schema_version"))
        return write_json(out, result);
  }
}

void keep_reported_steps(const fs::path& run_folder) {
  const fs::path out = run_folder / "result.json";
  if (is_there(out)) return;
  const Json steps =
      MetricsTail(run_folder / "metrics.jsonl", /*external=*/true).update(/*ended=*/true).reported;
  if (!steps.empty())
    write_json(out, {{"schema_version", 1}, {"status", "ok"}, {"reason", ""}, {"steps", steps}});
}

void complete_result(RunResult& result, const Json& stored) {
  const auto has_loss = [](const Json& step) { return step.contains("loss"); };
  if (!result.has_losses() && std::ranges::any_of(stored.value("steps", Json::array()), has_loss))
    throw Error(ErrorCode::diverged, "the loss is not finite in any step",
                "lower the learning rate; a program that does not know its loss leaves `loss` out");
  std::vector<double> seconds, rates;
  double trained = 0;
  std::set<int64_t> lengths;
  for (const StepResult& step : result.steps) {
    if (!step.timed || step.tokens == 0 || step.seconds == 0) continue;
    seconds.push_back(step.seconds);
    rates.push_back(static_cast<double>(step.tokens) / step.seconds);
    trained += static_cast<double>(step.trained);
    lengths.insert(step.tokens);
  }
  const auto& reported = result.tokens_per_second;
  if (rates.empty() && reported) return;
  if (rates.empty())
    throw Error(ErrorCode::invalid_file,
                "its result has neither tokens_per_second nor timed steps from which it follows",
                kProgramReports);
  const auto [slowest, fastest] = std::ranges::minmax(rates);
  constexpr double kRounding = 0.01;
  if (reported && (*reported < slowest * (1 - kRounding) || *reported > fastest * (1 + kRounding)))
    throw Error(ErrorCode::invalid_file,
                "its tokens_per_second is " + grouped(*reported) + ", but its timed steps make " +
                    grouped(slowest) + " to " + grouped(fastest),
                "leave out tokens_per_second: it then follows from the tokens and seconds of the steps");
  if (!result.step_seconds) result.step_seconds = median(seconds);
  if (reported) return;
  // As the worker computes them: by the median step if all do the same work.
  const auto each = [&](double all) { return all / static_cast<double>(seconds.size()); };
  const double step = lengths.size() == 1 ? *median(seconds) : each(result.timed_seconds());
  result.tokens_per_second = each(static_cast<double>(result.timed_tokens())) / step;
  result.trained_tokens_per_second = each(trained) / step;
}

std::vector<UsedPlugin> as_plugins(const External& external) {
  const auto plugin = [&](const std::string& name, Effect effect, Json options) {
    return UsedPlugin{.name = name,
                      .version = "",
                      .file = external.command.front(),
                      .sha256 = "",
                      .effect = effect,
                      .options = std::move(options)};
  };
  std::vector<UsedPlugin> all = {plugin(program_name(external), external.effect,
                                        {{"command", external.command}, {"preload", external.preload}})};
  for (const ProgramChange& change : external.changes)
    all.push_back(plugin(change.rung, change.effect, {{"command", change.command}, {"args", change.args}}));
  return all;
}
}  // namespace optrush
