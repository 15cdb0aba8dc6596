#include <algorithm>
#include <iostream>
#include <memory>

#include "base/files.h"
#include "cli/check_table.h"
#include "cli/commands.h"
#include "cli/interrupted.h"
#include "cli/option_parts.h"
#include "experiment/until.h"
#include "launch/run/check_run.h"
#include "machine/installation.h"
#include "optrush/error.h"
#include "optrush/machine.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
struct CheckOptions {
  std::string device = "auto", for_time, limit;
  std::vector<std::string> plugins, kinds, plugin_path;
  fs::path json, folder;
  bool resume = false;
  bool without_values = false;
};

double seconds_given(const std::string& text, const std::string& option) try {
  return seconds_from(text, option);
} catch (const Error& e) {
  throw UsageError(e);
}

int check_plugins(const CheckOptions& options) {
  CheckSettings settings;
  settings.worker = Installation::of_this_program().worker;
  settings.selection = {"--device", options.device};
  const auto pass_on = [&](const std::string& name, const std::vector<std::string>& values) {
    for (const std::string& value : values)
      settings.selection.insert(settings.selection.end(), {name, value});
  };
  pass_on("--plugin", options.plugins);
  pass_on("--kind", options.kinds);
  for (const std::string& folder : options.plugin_path)
    pass_on("--plugin-path", {fs::absolute(folder).lexically_normal()});
  if (options.without_values) settings.selection.emplace_back("--without-values");
  settings.journal = (options.folder.empty() ? cache_folder("check") : options.folder) / "journal.jsonl";
  settings.resume = options.resume;
  if (!options.for_time.empty()) settings.for_s = seconds_given(options.for_time, "--for");
  if (!options.limit.empty()) settings.limit_s = seconds_given(options.limit, "--limit");

  CheckOutcome outcome;
  {
    Progress progress(Terminal::of(2));
    outcome = run_checks(settings, progress);
  }
  if (!options.json.empty()) write_json(options.json, check_json(outcome));
  std::cout << check_table(outcome) << std::flush;
  if (outcome.signal != 0)
    throw Interrupted(outcome.signal,
                      "'optrush check --resume' with the same options runs the remaining cases");
  const bool failed = std::ranges::count(outcome.cases, CaseStatus::failed, &CheckedCase::status) != 0;
  return failed ? kSomethingFailed : kOk;
}
}  // namespace

void add_check_command(CLI::App& app, int& code) {
  auto options = std::make_shared<CheckOptions>();
  auto* command = app.add_subcommand("check", "test every plugin on this machine, alone and with the others");
  command->add_option("--device", options->device, "auto, cpu or cuda");
  add_repeated(*command, "--plugin", options->plugins, "NAME[:KEY=VALUE,...]",
               "run only cases with this plugin");
  add_repeated(*command, "--kind", options->kinds, "KIND",
               "run only cases of this kind: alone, gradient, types, resume, compiled or pair");
  add_plugin_path(*command, options->plugin_path);
  command
      ->add_option("--for", options->for_time,
                   "stop after this time, for example 8m; the most informative cases run first")
      ->type_name("TIME");
  command->add_option("--limit", options->limit, "time limit of one case; default: 2m, or 15m with compile")
      ->type_name("TIME");
  command->add_flag("--resume", options->resume, "reuse valid stored results; run the other cases");
  command
      ->add_option("--folder", options->folder,
                   "folder of the results for --resume; default: the user's cache")
      ->type_name("FOLDER");
  command->add_option("--json", options->json, "also write every case and its result to this file")
      ->type_name("FILE");
  command->add_flag("--without-values", options->without_values, "on a stand-in for a GPU: compare nothing")
      ->group("");  // for tests; not shown in the help
  command->footer(
      "Trains small models for a few steps and compares them with a reference: losses, gradients,\n"
      "finite differences in fp64, every type. Exit code: 0 no case failed, 1 a case failed, 2 wrong usage,\n"
      "130 interrupted.");
  command->callback([options, &code] { code = check_plugins(*options); });
}
}  // namespace optrush
