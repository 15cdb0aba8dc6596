#include "launch/schedule/needs.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "checkpoint/tokenizer_files.h"
#include "launch/run/result.h"
#include "launch/schedule/schedule.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "machine/visible_gpu.h"
#include "optrush/error.h"
#include "plugin/description.h"
#include "plugin/needs.h"
#include "process/process.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr Limits kLoaderLimits{.timeout_s = 10};
constexpr const char* kPythonWord = "{python}";
const MissingPart kNoPython{"no Python environment was found", "run ./optrush setup, or set OPTRUSH_PYTHON"};

/// "./optrush setup NAME" if the file is in experiments/NAME of the source tree: the launcher then installs
/// that folder's requirements and packages. Empty for other files, and without a source tree.
std::string set_up_command(const fs::path& file) {
  const fs::path source = Installation::of_this_program().source;
  std::error_code error;
  if (source.empty() || !fs::equivalent(file.parent_path().parent_path(), source / "experiments", error))
    return "";
  const bool here = fs::equivalent(fs::current_path(error), source, error);
  return (here ? fs::path("./optrush") : source / "optrush").string() + " setup " +
         file.parent_path().filename().string();
}

/// The names in a file of system packages, without comments.
std::vector<std::string> package_names(const fs::path& file) {
  std::vector<std::string> words;
  std::istringstream text(read_file(file));
  for (std::string line; std::getline(text, line);) {
    std::istringstream rest(line.substr(0, line.find('#')));
    for (std::string word; rest >> word;) words.push_back(word);
  }
  return words;
}

/// How to install a library or a program of the system.
std::string cure_of_system_part(const External& external) {
  if (external.packages.empty()) return "install it";
  const fs::path file = fs::path(external.folder) / external.packages;
  if (const auto command = set_up_command(file); !command.empty()) return command;
  return "apt-get install " + join(package_names(file), " ") + " (as root, on Debian)";
}

bool runs_python(const External& external) {
  return !external.requirements.empty() ||
         std::ranges::any_of(full_command(external), [](const std::string& word) {
           return word.find(kPythonWord) != std::string::npos;
         });
}

/// The dynamic loader's message if it can't preload a library; it then continues without it.
std::string complaint_of_loader(const std::string& library, Interrupts& interrupts) {
  const TemporaryFolder folder;
  const fs::path log = folder.path() / "log.txt";
  run_process({.arguments = {"true"}, .environment = {{"LD_PRELOAD", library}}, .log = log}, kLoaderLimits,
              interrupts);
  return log_tail(log);
}

/// The missing programs of plugins. A GPU is left out, because no command installs it.
std::vector<MissingPart> missing_for_plugins(const std::set<std::string>& needs) {
  std::vector<MissingPart> parts;
  if (needs.contains("python"))
    if (const auto why = no_python(find_python_tools(), gpu_is_visible()); !why.empty())
      parts.push_back(
          {"Python: " + why, "run ./optrush setup, or set OPTRUSH_PYTHON to a Python with that torch"});
  if (needs.contains("compiler"))
    if (const auto why = no_compiler(); !why.empty())
      parts.push_back({"a C++ compiler: " + why, "apt-get install g++, or set CXX to a compiler"});
  return parts;
}

/// Whether the run samples text with the tokenizer of a checkpoint, which needs transformers.
bool samples_with_tokenizer(const RunSpec& spec) {
  const std::string checkpoint = spec.model.value("checkpoint", "");
  return !spec.sample.prompts.empty() && !checkpoint.empty() && has_tokenizer(checkpoint);
}

/// The missing parts of runs that sample text with the tokenizer of a checkpoint.
std::vector<MissingPart> missing_for_samples() {
  const fs::path python = project_python();
  if (python.empty()) return {kNoPython};
  const TemporaryFolder folder;
  const fs::path requirements = folder.path() / "requirements.txt";
  write_file(requirements, "transformers\n");
  if (missing_packages(python, requirements).empty()) return {};
  return {{python.string() + " lacks transformers, which reads the tokenizer of the checkpoint for sample",
           python.string() + " -m pip install transformers"}};
}
}  // namespace

std::vector<MissingPart> Needs::missing(const External& external) {
  std::vector<MissingPart> parts;
  const fs::path python = runs_python(external) ? project_python() : fs::path();
  if (runs_python(external) && python.empty()) parts.push_back(kNoPython);
  if (const std::string program = full_command(external).front();
      program != kPythonWord && !can_execute(program, external.folder))
    parts.push_back({"there is no program '" + program + "'", cure_of_system_part(external)});
  if (!external.requirements.empty() && !python.empty()) {
    const fs::path file = fs::path(external.folder) / external.requirements;
    const auto [missing, is_new] = packages_.try_emplace(file);
    if (is_new) missing->second = missing_packages(python, file);
    if (!missing->second.empty()) {
      const std::string set_up = set_up_command(file);
      parts.push_back({python.string() + " lacks " + join(missing->second),
                       set_up.empty() ? python.string() + " -m pip install -r " + file.string() : set_up});
    }
  }
  for (const auto& library : external.preload) {
    const auto [found, is_new] = complaints_.try_emplace(library);
    if (is_new) found->second = complaint_of_loader(library, interrupts_);
    const std::string& complaint = found->second;
    if (complaint.empty()) continue;
    const bool absent = complaint.find("cannot open shared object file") != std::string::npos;
    parts.push_back({"the library " + library + " is missing" + (absent ? "" : ": " + complaint),
                     cure_of_system_part(external)});
  }
  return parts;
}

std::string reason_of(const std::vector<MissingPart>& parts) {
  std::string reason;
  for (const auto& [what, cure] : parts) reason += (reason.empty() ? "" : "\n") + what + "\n" + cure;
  return reason;
}

void require_what_is_needed(const Expanded& expanded, const std::vector<std::string>& only,
                            Interrupts& interrupts) {
  const auto& [experiment, variants] = expanded;
  const Schedule schedule(variants, experiment, only);
  Needs needs(interrupts);
  const Catalogue catalogue = Catalogue::find(experiment.base.plugin_path);
  std::map<std::set<std::string>, std::vector<MissingPart>> of_plugins;
  std::optional<std::vector<MissingPart>> of_samples;
  // each missing part with the rungs that need it
  std::vector<std::pair<MissingPart, std::vector<std::string>>> missing;
  for (const Variant& variant : variants) {
    if (!variant.has_own_runs() || !schedule.wanted(variant)) continue;
    std::vector<MissingPart> parts;
    if (variant.external) {
      parts = needs.missing(*variant.external);
    } else {
      std::set<std::string> words;
      for (const auto& use : variant.spec.plugins)
        for (const auto& need : catalogue.at(use.name).needs)
          if (!need.starts_with("sm_") && need != "cuda") words.insert(need);
      const auto [found, first] = of_plugins.try_emplace(words);
      if (first) found->second = missing_for_plugins(words);
      parts = found->second;
      if (samples_with_tokenizer(variant.spec)) {
        if (!of_samples) of_samples = missing_for_samples();
        parts.insert(parts.end(), of_samples->begin(), of_samples->end());
      }
    }
    for (const auto& part : parts) {
      auto known = std::ranges::find(missing, part, &decltype(missing)::value_type::first);
      if (known == missing.end()) known = missing.insert(known, {part, {}});
      known->second.push_back(variant.name);
    }
  }
  if (missing.empty() || interrupts.signal() != 0) return;
  std::string what = "this machine lacks requirements of some rungs; nothing was run";
  std::vector<std::string> cures;
  for (const auto& [part, rungs] : missing) {
    what += "\n  " + part.what + "\n    needed by: " + join(rungs);
    if (std::ranges::find(cures, part.cure) == cures.end()) cures.push_back(part.cure);
  }
  throw UsageError(ErrorCode::missing_requirement, what,
                   join(cures, "; ") + "; or skip these rungs with --skip-missing");
}
}  // namespace optrush
