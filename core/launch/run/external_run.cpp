#include "launch/run/external_run.h"

#include "base/files.h"
#include "base/text.h"
#include "launch/fork_server.h"
#include "machine/cores.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "machine/python.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
std::string preload_list(const External& external) { return join(external.preload, ":"); }
}  // namespace

Command external_command(const External& external, const RunSpec& spec, const fs::path& run_folder,
                         const fs::path& worker, const fs::path& start) {
  const fs::path folder = fs::absolute(run_folder);
  const std::string spec_file = folder / "spec.json", out = folder / "result.json",
                    metrics = folder / "metrics.jsonl",
                    trace = spec.trace ? (folder / "trace.json").string() : "",
                    worker_file = fs::absolute(worker), world_size = std::to_string(spec.train.world_size);
  Command command{.log = folder / "log.txt", .folder = external.folder};
  const std::vector<std::pair<std::string, std::string>> values = {{"{python}", project_python().string()},
                                                                   {"{spec}", spec_file},
                                                                   {"{out}", out},
                                                                   {"{metrics}", metrics},
                                                                   {"{trace}", trace},
                                                                   {"{start}", start.string()},
                                                                   {"{worker}", worker_file},
                                                                   {"{world_size}", world_size}};
  for (const auto& word : external.command) command.arguments.push_back(filled_in(word, values));
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
  command.environment.emplace_back("PYTHONPATH",
                                   (Installation::of_this_program().scripts / "python").string() +
                                       (packages.empty() ? "" : ":" + packages));
  if (!external.preload.empty()) command.environment.emplace_back("LD_PRELOAD", preload_list(external));
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

UsedPlugin as_plugin(const External& external, const std::string& rung) {
  return {.name = rung,
          .version = "",
          .file = external.command.front(),
          .sha256 = "",
          .effect = external.effect,
          .options = {{"command", external.command}, {"preload", external.preload}}};
}
}  // namespace optrush
