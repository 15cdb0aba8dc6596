#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "base/files.h"
#include "base/log.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/dry_run.h"
#include "cli/option_parts.h"
#include "cli/run_host.h"
#include "launch/ranks/remote_ranks.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "machine/torch_folder.h"
#include "process/terminal.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
struct RunOptions {
  std::string script;  ///< as given: a path or @NAME
  fs::path out;
  Overrides overrides;
  RunRequest request;  ///< without what follows from the script and the machine
  std::vector<std::string> plugin_path, arguments;
  std::string preset;
  std::string again;                  ///< the command that runs what is missing
  std::optional<std::string> as_gpu;  ///< name of a card, or its memory
  std::string given_secret;           ///< OPTRUSH_JOB_SECRET
  bool dry_run = false, json = false, costs = false, verbose = false;
};

void check_script(const fs::path& script) {
  if (fs::is_regular_file(script)) return;
  const fs::path folder = script.has_parent_path() ? script.parent_path() : fs::path(".");
  std::vector<std::string> scripts;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".lua")
        scripts.push_back(script.has_parent_path() ? entry.path() : entry.path().filename());
  throw UsageError(
      ErrorCode::unknown_name, "there is no script '" + script.string() + "'",
      scripts.empty()
          ? "give the path of an experiment, or the name of a shipped one, for example @quickstart"
          : did_you_mean(script.string(), scripts));
}

/// The default folder for reports: reports/ of the script's project (the folder above experiments/, or the
/// root of its repository), otherwise, and for shipped experiments, of the working directory.
fs::path default_reports(const fs::path& script, const Installation& here) {
  const fs::path home = fs::absolute(script).lexically_normal().parent_path();
  if (here.installed && home == here.experiments) return fs::current_path() / "reports";
  if (home.filename() == "experiments") return home.parent_path() / "reports";
  for (fs::path folder = home; folder != folder.parent_path(); folder = folder.parent_path())
    if (fs::exists(folder / ".git")) return folder / "reports";
  return fs::current_path() / "reports";
}

/// The command that runs what is missing: the given one with --resume.
std::string resuming(const CLI::App& command) {
  std::string words = "optrush run", script;
  std::set<const CLI::Option*> seen;
  for (const CLI::Option* option : command.parse_order()) {
    if (!seen.insert(option).second || option->get_name() == "--resume") continue;
    if (option->get_items_expected_max() == 0) {
      words += " " + option->get_name();
      continue;
    }
    for (const auto& value : option->results())
      (option->get_positional() ? script : words) +=
          (option->get_positional() ? " " : " " + option->get_name() + " ") + shell_word(value);
  }
  return words.insert(std::string_view("optrush run").size(), script) + " --resume";
}

/// Waits for the other processes of a launcher's job.
void join(RemoteRanks& remote_ranks) {
  Interrupts interrupts;
  remote_ranks.join(join_timeout_s(), interrupts);
  if (interrupts.signal() != 0) throw Interrupted(interrupts.signal(), "nothing was run");
  const Terminal terminal = Terminal::of(2);
  for (const auto& note : remote_ranks.take_notes())
    terminal.write("optrush: " + terminal.paint(Colour::red, note) + "\n");
}

/// Runs as rank 0 of a launcher's job: the other processes end with the same exit code.
int run_with_remote_ranks(const Launched& here, const fs::path& script, JobSecret secret,
                          const std::function<int(RemoteRanks&)>& conduct) {
  if (secret.bytes.empty())
    Terminal::of(2).write(
        "optrush: this job has no secret, so any user of this machine may join it; set "
        "OPTRUSH_JOB_SECRET, or HOME to a folder that can be written\n");
  RemoteRanks remote_ranks(here, sha256_file(script), std::move(secret));
  try {
    join(remote_ranks);
    const int code = conduct(remote_ranks);
    remote_ranks.dismiss({code, code == kOk ? "" : "some runs failed; see the report of rank 0"});
    return code;
  } catch (const std::exception& e) {
    remote_ranks.dismiss({exit_code_of(e), std::string("rank 0 failed: ") + e.what()});
    throw;
  }
}

/// "layers=8" becomes {"layers", "8"}.
std::map<std::string, std::string> named(const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> values;
  for (const auto& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError("--arg takes name=value, not '" + argument + "'", "for example --arg layers=8");
    if (!values.emplace(argument.substr(0, equals), argument.substr(equals + 1)).second)
      throw UsageError("--arg gives '" + argument.substr(0, equals) + "' twice", "give it once");
  }
  return values;
}

void check_options(const RunOptions& options) {
  if (options.json && !options.dry_run)
    throw UsageError("--json needs --dry-run", "a measured report has its results in results.json");
  if (options.costs && !options.dry_run)
    throw UsageError("--costs needs --dry-run", "a measured report has the counted costs in report.md");
  if (options.costs && options.json)
    throw UsageError("--costs and --json exclude each other",
                     "give --json alone: its plans contain the costs");
  if (options.as_gpu && !options.dry_run)
    throw UsageError("--as-gpu needs --dry-run", "to measure on a GPU, give --device cuda");
}

/// Seconds of a noise probe: at most OPTRUSH_PROBE_SECONDS, which also limits the measurement of the machine.
double noise_seconds() {
  const double usual = RunRequest{}.probe_s;
  return std::min(usual, environment_seconds("OPTRUSH_PROBE_SECONDS", usual));
}

int run(const RunOptions& options) {
  if (options.verbose) log::enable();
  check_options(options);
  const Installation installation = Installation::of_this_program();
  const fs::path path = script_named(options.script, installation);
  check_script(path);
  const auto here = launched();
  // If several processes were started, only the first one reads the script.
  const auto secret = [&] { return job_secret(options.given_secret, here->local_size == here->size); };
  if (here && here->rank > 0)
    return options.dry_run ? kOk : run_rank_agent(*here, sha256_file(path), worker_for_torch(), secret());
  RunRequest request = options.request;
  request.worker = worker_for_torch();
  request.reports = options.out.empty() ? default_reports(path, installation)
                                        : fs::absolute(options.out).lexically_normal();
  request.probe_s = noise_seconds();
  Overrides overrides = options.overrides;
  if (options.as_gpu) {
    request.as_gpu = planned_gpu(*options.as_gpu);
    overrides.device = "cuda";
  }
  const ScriptOptions script{options.plugin_path, installation.scripts, overrides.device.value_or(""),
                             options.preset, named(options.arguments)};
  if (options.dry_run) {
    const DryRunForm form = options.json    ? DryRunForm::json
                            : options.costs ? DryRunForm::costs
                                            : DryRunForm::text;
    DryRunHost host(request, overrides, form);
    run_script(path, host, script);
    host.finish();
    return host.all_ok() ? kOk : kSomethingFailed;
  }
  const auto conduct = [&] {
    RunHost host(request, overrides, "this runs what is missing: " + options.again);
    run_script(path, host, script);
    return host.all_ok() ? kOk : kSomethingFailed;
  };
  if (!here) return conduct();
  return run_with_remote_ranks(*here, path, secret(), [&](RemoteRanks& remote_ranks) {
    request.remote_ranks = &remote_ranks;
    return conduct();
  });
}
}  // namespace

void add_run_command(CLI::App& app, int& code, const std::string& given_secret) {
  auto options = std::make_shared<RunOptions>();
  options->given_secret = given_secret;
  auto* command = app.add_subcommand("run", "run an experiment and write its report");
  command->add_option("script", options->script, "experiment (Lua), or @NAME of a shipped one")->required();
  command->add_flag("--dry-run", options->dry_run, "print the expanded specs and plans without running");
  add_value(*command, "--as-gpu", options->as_gpu, "GPU",
            "with --dry-run: plan for this GPU, present or not: h100, a100-40, rtx4090, ..., or its memory: "
            "80 (a card sold as 80 GB), 79.1 (GiB), 80GB");
  command->add_option("--preset", options->preset, "preset of the experiment, if the script has presets");
  add_repeated(*command, "--arg", options->arguments, "NAME=VALUE", "argument for rush.arg in the script");
  command->add_flag("--json", options->json, "with --dry-run: print JSON");
  command->add_flag("--costs", options->costs,
                    "with --dry-run: print launches, host waits, casts, bytes and FLOPs of each rung's step");
  add_repeated(*command, "--set", options->overrides.set, "KEY=VALUE",
               "override a setting: train.steps=20 or PLUGIN.OPTION=4");
  add_repeated(*command, "--only", options->request.only, "RUNG",
               "run only the base and this rung, or all rungs that match a pattern ('fused*')");
  command->add_flag("--skip-missing", options->request.skip_missing,
                    "skip rungs that need a missing program, library or Python package");
  command
      ->add_option("--rounds", options->overrides.rounds, "number of rounds; each rung runs once per round")
      ->check(above_zero());
  command->add_option(
      "--within", options->overrides.within,
      "with --at-most: run rounds until every interval is this narrow; default: 0.03, which is ±3 %");
  add_value(*command, "--at-most", options->overrides.at_most, "TIME",
            "time limit, for example 90s, 5m, 1h; rounds until then, or until every interval is narrow "
            "(--within)");
  add_value(*command, "--interleave", options->overrides.interleave, "WHEN",
            "interleave the rungs of a round step by step: on, off or auto");
  command->add_flag("--trace", options->overrides.trace,
                    "write a Chrome trace of one additional step in each rung's first round");
  command->add_option("--label", options->overrides.label,
                      "name of the report; default: local, which the next run replaces");
  auto* resume =
      command->add_flag("--resume", options->request.resume, "run only the missing runs of the report");
  command
      ->add_flag("--retry", options->request.retry,
                 "with --resume: rerun failed runs, and the runs interleaved with them")
      ->needs(resume);
  add_value(*command, "--max-restarts", options->overrides.max_restarts, "N",
            "start a run that saves its state again from it, up to N times, after a fault")
      ->check(zero_or_more());
  add_value(*command, "--track", options->request.track, "TRACKER",
            "write the steps as they are made for a tracker: tensorboard or wandb (offline)")
      ->check(CLI::IsMember({"tensorboard", "wandb"}));
  add_value(*command, "--out", options->out, "FOLDER",
            "folder for reports; default: reports/ of the script's project, or ./reports");
  add_plugin_path(*command, options->plugin_path);
  command->add_option("--device", options->overrides.device, "auto, cpu or cuda");
  command->add_option("--threads", options->overrides.threads,
                      "CPU threads of a rank; 0: OMP_NUM_THREADS, or its share of the cores");
  command->add_flag("--verbose", options->verbose, "log the started processes and their reasons to stderr");
  command->footer(
      "Exit code: 0 every run succeeded, or was skipped because this machine lacks a requirement;\n"
      "1 a run failed, or nothing was measured; 2 wrong usage, or a requirement is missing;\n"
      "128 + N interrupted by signal N (130 by Ctrl-C, 143 by SIGTERM).");
  command->callback([options, command, &code] {
    options->again = resuming(*command);
    code = run(*options);
  });
}
}  // namespace optrush
