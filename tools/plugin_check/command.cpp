#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "build_info.h"
#include "cli/commands.h"
#include "cli/option_parts.h"
#include "experiment/experiment.h"
#include "machine/stand_in.h"
#include "machine/torch_folder.h"
#include "optrush/advanced/machine.h"
#include "optrush/error.h"
#include "plugin_check/check_kind.h"
#include "plugin_check/check_run.h"
#include "plugin_check/commands.h"
#include "report/writers/writers.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr std::array kStatuses = {CaseStatus::ok, CaseStatus::refused, CaseStatus::skipped,
                                  CaseStatus::failed, CaseStatus::not_run};

using Counts = std::map<CaseStatus, size_t>;

/// For example "12 ok" or "10 ok, 2 refused".
std::string counts_text(const Counts& counts) {
  std::vector<std::string> parts;
  for (const CaseStatus status : kStatuses)
    if (const auto found = counts.find(status); found != counts.end())
      parts.push_back(std::to_string(found->second) + " " + std::string(to_string(status)));
  return join(parts);
}

/// The verdict of a plugin. It is good only if a case trained: a plugin whose cases were all skipped or
/// refused was not checked.
std::string verdict_of(const std::set<CaseStatus>& statuses, bool compared) {
  if (statuses.contains(CaseStatus::failed)) return "FAILED";
  return compared && statuses.contains(CaseStatus::ok) ? std::string(to_string(CaseStatus::ok))
                                                       : "not checked";
}

Table by_plugin(const std::vector<CheckedCase>& cases, bool compared) {
  std::map<std::string, std::map<std::string, Counts>> counts;
  std::map<std::string, std::set<CaseStatus>> statuses;
  for (const CheckedCase& each : cases)
    for (const std::string& plugin : each.subjects) {
      ++counts[plugin][each.kind][each.status()];
      statuses[plugin].insert(each.status());
    }
  std::vector<std::string> kinds;
  for (const std::string_view kind : kCheckKinds)
    if (std::ranges::count(cases, kind, &CheckedCase::kind) > 0) kinds.emplace_back(kind);
  Table table({"plugin", "verdict"});
  for (const std::string& kind : kinds) table.columns.push_back({kind});
  for (const auto& [plugin, by_kind] : counts) {
    std::vector<std::string> row = {plugin, verdict_of(statuses[plugin], compared)};
    for (const std::string& kind : kinds) {
      const auto found = by_kind.find(kind);
      row.push_back(found == by_kind.end() ? "-" : counts_text(found->second));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string indented(const std::string& text, const std::string& margin) {
  std::string result = margin;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += margin;
  }
  return result;
}

/// Each reason once, with the first of its cases.
std::string reasons_of(const std::vector<CheckedCase>& cases, CaseStatus status) {
  constexpr size_t kNamed = 3;
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const CheckedCase& each : cases) {
    if (each.status() != status) continue;
    auto known =
        std::ranges::find(reasons, each.end.detail, &std::pair<std::string, std::vector<std::string>>::first);
    if (known == reasons.end()) known = reasons.insert(reasons.end(), {each.end.detail, {}});
    known->second.push_back(each.id);
  }
  if (reasons.empty()) return {};
  std::string text = "\n" + std::string(to_string(status)) + "\n";
  for (auto& [reason, ids] : reasons) {
    const size_t more = ids.size() > kNamed && status != CaseStatus::failed ? ids.size() - kNamed : 0;
    ids.resize(ids.size() - more);
    for (const std::string& id : ids) text += "  " + id + "\n";
    if (more > 0) text += "  and " + std::to_string(more) + " more\n";
    if (!reason.empty()) text += indented(reason, "      ") + "\n";
  }
  return text;
}

Counts counts_of(const std::vector<CheckedCase>& cases) {
  Counts counts;
  for (const CheckedCase& each : cases) ++counts[each.status()];
  return counts;
}

/// A line per plugin with the number of its cases by kind and result, then every reason with its cases, then
/// the counts.
std::string check_table(const CheckOutcome& outcome) {
  const bool compared = !is_stand_in(outcome.machine);
  std::string text = compared ? "" : std::string(kNothingComputed) + " Nothing was compared.\n\n";
  text += text_table(by_plugin(outcome.cases, compared));
  for (const CaseStatus status : {CaseStatus::refused, CaseStatus::skipped, CaseStatus::failed})
    text += reasons_of(outcome.cases, status);
  for (const Json& file : outcome.unusable)
    text += "\ncan't be used: " + file.at("file").get<std::string>() + "\n" +
            indented(file.at("reason"), "      ") + "\n";
  text += "\n" + std::to_string(outcome.cases.size()) + " cases on " + outcome.machine + ": " +
          counts_text(counts_of(outcome.cases)) + ", in " + clock_time(outcome.seconds);
  text += "; each trained on 1 rank, a plugin for several ranks alone also on 2";
  if (outcome.resumed > 0) text += "; " + std::to_string(outcome.resumed) + " of them reused";
  return text + "\n";
}

/// {"schema_version", "device", "machine", "counts", "cases", "unusable", ...} for programs.
Json check_json(const CheckOutcome& outcome) {
  Json cases = Json::array();
  for (const CheckedCase& each : outcome.cases) {
    Json line = {{"id", each.id}, {"kind", each.kind}, {"plugins", each.subjects}};
    line.update(to_json(each.end));
    cases.push_back(std::move(line));
  }
  Json counts = Json::object();
  for (const CaseStatus status : kStatuses)
    counts[std::string(to_string(status))] = std::ranges::count(outcome.cases, status, &CheckedCase::status);
  return {{"schema_version", 1},
          {"optrush_version", OPTRUSH_VERSION},
          {"date", utc_now()},
          {"device", outcome.device},
          {"machine", outcome.machine},
          {"seconds", outcome.seconds},
          {"resumed", outcome.resumed},
          {"interrupted", outcome.signal != 0},
          {"counts", counts},
          {"cases", cases},
          {"unusable", outcome.unusable}};
}

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
  settings.worker = worker_for_torch();
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

void plugin_check::add_command(CLI::App& app, int& code) {
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
