#include <CLI/CLI.hpp>
#include <memory>

#include "cli/become.h"
#include "cli/commands.h"
#include "machine/installation.h"
#include "optrush/machine.h"

namespace optrush {
namespace {
struct Conversion {
  std::string source, target, model, python, turns = "all", chat_template, date;
  std::vector<std::string> template_arguments, extensions;
  int64_t pairs_of_texts = 0;
  bool token_file = false, allow_lost = false;
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
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  if (asked.token_file) words.emplace_back("--token-file");
  if (asked.allow_lost) words.emplace_back("--allow-lost");
  if (asked.pairs_of_texts > 0) add("--pairs-of-texts", std::to_string(asked.pairs_of_texts));
  add("--chat-template", asked.chat_template);
  add("--date", asked.date);
  for (const auto& argument : asked.template_arguments) add("--template-arg", argument);
  for (const auto& extension : asked.extensions) add("--extension", extension);
  become(words, "name a Python by --python");
}
}  // namespace

void add_tokenize_command(CLI::App& app, int&) {
  auto asked = std::make_shared<Conversion>();
  auto* command = app.add_subcommand(
      "tokenize", "texts, conversations or preferences as tokens of a model, to train or tune it on");
  command
      ->add_option("file", asked->source,
                   "one JSON object a line: messages, text, or prompt and completion; or a folder of texts")
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
      ->add_option("--turns", asked->turns,
                   "on which turns of the assistant the loss is taken: all, last, or each in a conversation "
                   "of its own")
      ->check(CLI::IsMember({"all", "last", "each"}));
  command
      ->add_option("--template-arg", asked->template_arguments,
                   "an argument of the chat template, as in enable_thinking=false; may be repeated")
      ->take_all()
      ->expected(1)
      ->type_name("NAME=VALUE");
  command->add_option("--chat-template", asked->chat_template, "a file with another chat template (Jinja)")
      ->check(CLI::ExistingFile);
  command->add_option("--date", asked->date, "what a template that writes today's date takes for today")
      ->type_name("YYYY-MM-DD");
  command->add_flag("--allow-lost", asked->allow_lost,
                    "leave out what the chat template leaves out of messages that are not learned");
  command->add_option("--extension", asked->extensions, "of a folder only files that end so; may be repeated")
      ->take_all()
      ->expected(1)
      ->type_name(".EXT");
  command
      ->add_option("--pairs-of-texts", asked->pairs_of_texts,
                   "of a folder: pairs for rush.preferences, made of so many tokens of each text")
      ->check(CLI::PositiveNumber)
      ->type_name("TOKENS");
  command->add_option("--python", asked->python, "one that has transformers; else the project's own")
      ->type_name("PROGRAM");
  command->callback([asked] { tokenize(*asked); });
}
}  // namespace optrush
