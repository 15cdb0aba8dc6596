#include <CLI/CLI.hpp>
#include <memory>

#include "base/installation.h"
#include "cli/become.h"
#include "cli/commands.h"
#include "optrush/python.h"

namespace optrush {
namespace {
struct Conversion {
  std::string source, target, model, python, turns = "all";
  bool token_file = false;
};

/// Tokenizers and chat templates are those of transformers: its script takes this process's place.
[[noreturn]] void tokenize(const Conversion& asked) {
  const std::string python = asked.python.empty() ? project_python().string() : asked.python;
  if (python.empty())
    throw Error("there is no Python, which a model's tokenizer takes",
                "./optrush setup makes an environment; --python names another");
  const std::string script = Installation::of_this_program().scripts / "tokenize_documents.py";
  std::vector<std::string> words = {python,    "-B",        script,    asked.source, asked.target,
                                    "--model", asked.model, "--turns", asked.turns};
  if (asked.token_file) words.emplace_back("--token-file");
  become(words, "name a Python by --python");
}
}  // namespace

void add_tokenize_command(CLI::App& app, int&) {
  auto asked = std::make_shared<Conversion>();
  auto* command = app.add_subcommand(
      "tokenize", "texts, conversations or preferences as tokens of a model, to train or tune it on");
  command
      ->add_option("file", asked->source, "one JSON object a line: messages, text, or prompt and completion")
      ->required()
      ->check(CLI::ExistingPath);
  command->add_option("out", asked->target, "what rush.documents, rush.preferences or rush.tokens reads")
      ->required();
  command->add_flag(
      "--token-file", asked->token_file,
      "all texts one after the other, for rush.tokens; the source may also be a file of text, or "
      "a folder of such");
  command->add_option("--model", asked->model, "Hugging Face folder that has the tokenizer")
      ->required()
      ->check(CLI::ExistingDirectory);
  command
      ->add_option("--turns", asked->turns, "on which turns of the assistant the loss is taken: all or last")
      ->check(CLI::IsMember({"all", "last"}));
  command->add_option("--python", asked->python, "one that has transformers; else the project's own")
      ->type_name("PROGRAM");
  command->callback([asked] { tokenize(*asked); });
}
}  // namespace optrush
