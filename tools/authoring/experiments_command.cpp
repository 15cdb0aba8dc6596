#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "authoring/commands.h"
#include "cli/commands.h"
#include "machine/installation.h"
#include "report/writers/writers.h"
#include "script/host.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// Records what a script asks for. Runs nothing.
class QuestionHost : public ScriptHost {
 public:
  fs::path run(const Experiment& experiment) override {
    questions_.push_back(experiment.question);
    return {};
  }
  void report(const fs::path&) override {}
  const std::vector<std::string>& questions() const { return questions_; }

 private:
  std::vector<std::string> questions_;
};

/// {"questions", "problem"} of a script for `device`; "problem", with a "code": why it can't be read.
Json asked_by(const fs::path& script, const Installation& here, const std::string& device) {
  QuestionHost host;
  Json asked = {{"problem", ""}};
  try {
    run_script(script, host, {.plugin_path = {}, .library = here.scripts, .device = device});
  } catch (const Error& e) {
    asked = {{"problem", e.what()}, {"code", to_string(e.code())}};
  }
  asked["questions"] = host.questions();
  return asked;
}

/// One object per shipped experiment: its name, its file, and the result of asked_by().
Json listed(const Installation& here) {
  Json list = Json::array();
  for (const auto& name : shipped_experiments(here)) {
    const auto script = script_named("@" + name, here);
    // For this machine. The GPU is not inspected here, so a script that needs it is read for a CPU.
    Json asked = asked_by(script, here, "");
    if (!asked.at("problem").get<std::string>().empty()) asked = asked_by(script, here, "cpu");
    asked.update({{"name", name}, {"file", script.string()}});
    list.push_back(std::move(asked));
  }
  return list;
}

std::string page(const Json& list) {
  Table table({"experiment", "question"});
  for (const Json& experiment : list) {
    std::string text;
    for (const std::string question : experiment.at("questions"))
      text += (text.empty() ? "" : " ") + question;
    const std::string problem = experiment.at("problem");
    table.rows.push_back({"@" + experiment.at("name").get<std::string>(), problem.empty() ? text : problem});
  }
  return as_typed(text_table(table) + "\noptrush run @NAME runs one. To start your own, copy its script: " +
                  "optrush experiments --json prints its path\n");
}
}  // namespace

void authoring::add_experiments(CLI::App& app, int& code) {
  auto json = std::make_shared<bool>(false);
  auto* command = app.add_subcommand("experiments", "list the shipped experiments and their questions");
  command->add_flag("--json", *json, "print JSON, with the paths of the scripts");
  command->callback([json, &code] {
    const Json list = listed(Installation::of_this_program());
    std::cout << (*json ? list.dump(2) + "\n" : page(list)) << std::flush;
    code = kOk;
  });
}
}  // namespace optrush
