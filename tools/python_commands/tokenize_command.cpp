#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/option_parts.h"
#include "machine/installation.h"
#include "optrush/advanced/machine.h"
#include "python_commands/commands.h"
#include "spec/data_line.h"

namespace optrush {
namespace {
struct Conversion {
  std::string source, target, model, python, turns = "all", chat_template, date;
  std::vector<std::string> template_arguments, extensions;
  int64_t pairs_of_texts = 0;
  bool token_file = false, allow_lost = false;
};

/// Replaces this process by a Python script that uses the tokenizers and chat templates of transformers.
[[noreturn]] void tokenize(const Conversion& asked) {
  if (!asked.token_file && std::filesystem::is_regular_file(asked.source)) check_lines(asked.source, "", "");
  const std::string python = asked.python.empty() ? project_python().string() : asked.python;
  if (python.empty())
    throw Error(ErrorCode::missing_requirement, "no Python was found; the tokenizer of a model needs one",
                "run ./optrush setup, or name a Python with --python");
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
  become(words.front(), words, "name a Python with --python");
}
}  // namespace

void python_commands::add_tokenize(CLI::App& app, int& /*code*/) {
  auto asked = std::make_shared<Conversion>();
  auto* command =
      app.add_subcommand("tokenize", "convert texts, conversations or preferences to tokens of a model");
  command
      ->add_option("file", asked->source,
                   "file with one JSON object per line (messages, text, or prompt and completion), or a "
                   "folder of texts")
      ->required()
      ->check(CLI::ExistingPath);
  command
      ->add_option("out", asked->target, "output file, for rush.documents, rush.preferences or rush.tokens")
      ->required();
  command->add_flag("--token-file", asked->token_file,
                    "join all texts into one token file, for rush.tokens; the source may also be a text file "
                    "or a folder of them");
  command->add_option("--model", asked->model, "Hugging Face folder with the tokenizer")
      ->required()
      ->check(CLI::ExistingDirectory);
  command
      ->add_option("--turns", asked->turns,
                   "assistant turns that the loss covers: all, last, or each in a separate conversation")
      ->check(CLI::IsMember({"all", "last", "each"}));
  add_repeated(*command, "--template-arg", asked->template_arguments, "NAME=VALUE",
               "argument of the chat template, for example enable_thinking=false");
  command->add_option("--chat-template", asked->chat_template, "file with a different chat template (Jinja)")
      ->check(CLI::ExistingFile);
  command->add_option("--date", asked->date, "date for templates that write today's date")
      ->type_name("YYYY-MM-DD");
  command->add_flag("--allow-lost", asked->allow_lost,
                    "accept that the chat template drops parts of untrained messages");
  add_repeated(*command, "--extension", asked->extensions, ".EXT",
               "in a folder, read only files with this extension");
  command
      ->add_option("--pairs-of-texts", asked->pairs_of_texts,
                   "from a folder, make pairs for rush.preferences, with this many tokens of each text")
      ->check(above_zero())
      ->type_name("TOKENS");
  command
      ->add_option("--python", asked->python, "Python with transformers; default: the project's environment")
      ->type_name("PROGRAM");
  command->callback([asked] { tokenize(*asked); });
}
}  // namespace optrush
