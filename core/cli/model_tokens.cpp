#include "cli/model_tokens.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/files.h"
#include "base/number_text.h"
#include "base/temporary_folder.h"
#include "checkpoint/check_checkpoint.h"
#include "checkpoint/tokenizer_files.h"
#include "data/token_source.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "optrush/advanced/machine.h"
#include "optrush/error.h"
#include "spec/data_line.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr int64_t kByteVocabulary = 256;

/// The kind of a file's lines, recognized by the first one.
enum class Lines : uint8_t { tokens, text, chats };

Lines lines_of(const fs::path& path) {
  std::ifstream file(path);
  char begin = ' ';
  while (file >> begin && std::string_view("\xef\xbb\xbf").find(begin) != std::string_view::npos) {
  }
  if (begin == '[') return Lines::chats;  // a JSON array of lines, which the tokenizer accepts
  const Json first = first_data_line(path);
  if (!first.is_object()) return Lines::text;  // an error is reported when the data are read
  const auto is_tokens = [&](const char* name) {
    const auto part = first.find(name);
    return part != first.end() && part->is_array() && !part->empty() && part->at(0).is_number();
  };
  if (first.contains("tokens") || is_tokens("prompt")) return Lines::tokens;
  return is_chat(first) ? Lines::chats : Lines::text;
}

bool is_lines(const DataSpec& data) { return data.kind == "documents" || data.kind == "preferences"; }

/// Whether some of the data is text.
bool has_text(const DataSpec& data) {
  if (data.path.empty() || !fs::exists(data.path)) return false;
  if (data.kind == "text") return true;
  return is_lines(data) && (fs::is_directory(data.path) || lines_of(data.path) != Lines::tokens);
}

bool has_text(const Variant& variant) {
  const RunSpec& spec = variant.spec;
  return has_text(spec.data) || (spec.validate.every > 0 && has_text(spec.validate.data));
}

/// Hash of a file of any size.
std::string sum_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string piece(size_t{1} << 20, '\0'), sums;
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)
    sums += sha256(std::string_view(piece).substr(0, static_cast<size_t>(file.gcount())));
  return sha256(sums);
}

/// A file, or the files of a folder with these extensions (none given: all), in the order of their paths.
std::vector<fs::path> files_of(const fs::path& source, const std::vector<std::string>& extensions) {
  if (!fs::is_directory(source)) return {source};
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(source))
    if (entry.is_regular_file() &&
        (extensions.empty() || std::ranges::count(extensions, entry.path().extension().string()) > 0))
      paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

std::string sum_of(const fs::path& source, const std::vector<std::string>& extensions = {}) {
  if (!fs::is_directory(source)) return sum_of_file(source);
  std::string sums;
  for (const auto& path : files_of(source, extensions))
    sums += path.lexically_relative(source).string() + " " + sum_of_file(path) + "\n";
  return sha256(sums);
}

using Asked = ModelTokens::Asked;

/// The arguments of the command that writes `target`.
std::vector<std::string> words_of(const Asked& asked, const std::string& target) {
  const DataSpec& data = asked.data;
  std::vector<std::string> words = {data.path, target, "--model", asked.model};
  if (data.kind == "text") words.emplace_back("--token-file");
  for (const auto& extension : data.extensions) words.insert(words.end(), {"--extension", extension});
  if (data.kind == "preferences" && fs::is_directory(data.path))
    words.insert(words.end(), {"--pairs-of-texts", std::to_string(asked.pair_tokens)});
  return words;
}

std::string command_of(const Asked& asked) {
  std::string command = "optrush tokenize";
  for (const auto& word : words_of(asked, asked.data.kind == "text" ? "tokens.bin" : "tokens.jsonl"))
    command += " " + shell_word(word);
  return command;
}

/// The file in the cache, named by the hash of the data, the tokenizer and the scripts.
fs::path cached(const Asked& asked, const fs::path& scripts) {
  const DataSpec& data = asked.data;
  std::string made_of = sum_of(data.path, data.extensions);
  const fs::path model = asked.model;
  for (const auto& name : tokenizer_files())
    if (fs::exists(model / name)) made_of += name + sum_of(model / name);
  made_of += sum_of_file(model / "config.json");
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(scripts))
    if (entry.path().extension() == ".py") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const auto& file : files) made_of += sum_of_file(file);
  auto words = words_of(asked, "");
  for (size_t i = 4; i < words.size(); ++i) made_of += " " + words[i];
  return cache_folder("tokens") /
         (fs::path(data.path).stem().string() + "-" + sha256(made_of + data.kind).substr(0, 16) +
          (data.kind == "text" ? ".bin" : ".jsonl"));
}

/// Converts the message of the script to an Error.
[[noreturn]] void refuse_tokens(const std::string& said, const std::string& command,
                                const std::string& where) {
  const std::string begin = "optrush: error[invalid_file]: ", hint = "\n  hint: ";
  const size_t error = said.rfind(begin), cure = said.rfind(hint);
  if (error == std::string::npos || cure == std::string::npos)
    throw Error(
        ErrorCode::invalid_file,
        "the data cannot be tokenized: " + said.substr(said.size() - std::min<size_t>(said.size(), 1000)),
        "to see the whole output, run: " + command, where);
  throw Error(ErrorCode::invalid_file, said.substr(error + begin.size(), cure - error - begin.size()),
              said.substr(cure + hint.size(), said.find_last_not_of('\n') + 1 - cure - hint.size()) +
                  "; to tokenize with other options, run: " + command,
              where);
}

/// A token file of about the length of the text, without content: a plan reads only its header.
DataSpec tokens_to_plan_with(const fs::path& target, uintmax_t text_bytes, int64_t vocabulary) {
  constexpr uintmax_t kBytesOfToken = 4;  // of English text
  const TokenFileHeader header{.token_bytes = 4,
                               .vocab_size = static_cast<uint32_t>(vocabulary),
                               .count = std::max<uintmax_t>(2, text_bytes / kBytesOfToken)};
  const fs::path file = target.string() + ".planned", part = file.string() + "." + std::to_string(::getpid());
  write_file(part, std::string(reinterpret_cast<const char*>(&header), sizeof header));
  fs::resize_file(part, sizeof header + header.count * header.token_bytes);  // sparse
  fs::rename(part, file);
  return {.kind = "tokens", .path = file, .extensions = {}};
}
}  // namespace

DataSpec ModelTokens::made(const Asked& asked) const {
  const DataSpec& data = asked.data;
  const std::string command = command_of(asked);
  const fs::path scripts = Installation::of_this_program().scripts, target = cached(asked, scripts);
  if (!fs::exists(target)) {
    uintmax_t size = 0;
    for (const auto& path : files_of(data.path, data.extensions)) size += fs::file_size(path);
    const std::string text = data.path + " (" + bytes(static_cast<double>(size)) + ")";
    if (planned_ && data.kind == "text") {
      note_(text + " will be tokenized when the experiment starts");
      const Json vocabulary = text_fields(asked.model).value("vocab_size", "integer");
      return tokens_to_plan_with(target, size, vocabulary.get<int64_t>());
    }
    if (project_python().empty())
      throw Error(ErrorCode::missing_requirement,
                  "'" + data.path + "' must be tokenized for the checkpoint, but no Python was found",
                  "run ./optrush setup, or tokenize on another machine: " + command, asked.where);
    note_("tokenizing " + text + " with the tokenizer of " + asked.model);
    fs::create_directories(target.parent_path());
    const TemporaryFolder folder;
    std::vector<std::string> words = {"-B", (scripts / "tokenize_documents.py").string()};
    for (auto& word : words_of(asked, target)) words.push_back(std::move(word));
    const int code = run_python(words, folder.path() / "log.txt");
    const std::string said = read_file(folder.path() / "log.txt");
    if (code != 0) refuse_tokens(said, command, asked.where);
    write_file(target.string() + ".txt", said);
  }
  if (const fs::path said = target.string() + ".txt"; fs::exists(said)) {
    std::ifstream lines(said);
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("rush.")) note_(fs::path(data.path).filename().string() + ": " + line);
  }
  return {.kind = data.kind == "text" ? "tokens" : data.kind, .path = target.string(), .extensions = {}};
}

DataSpec ModelTokens::model_tokens(const Asked& asked) const {
  const DataSpec& data = asked.data;
  const fs::path model = asked.model;
  if (!has_text(data)) return data;
  const bool chats = is_lines(data) && !fs::is_directory(data.path) && lines_of(data.path) == Lines::chats;
  if (asked.model.empty() && !chats) return data;
  if (asked.model.empty())
    throw Error(
        ErrorCode::missing_file,
        "'" + data.path + "' contains conversations or a JSON array, but the model has no tokenizer",
        "use rush.checkpoint with a folder that has a tokenizer, or tokenize the file: optrush tokenize " +
            shell_word(data.path) + " tokens.jsonl --model FOLDER",
        asked.where);
  if (has_tokenizer(model)) return made(asked);
  if (!chats && text_fields(model)["vocab_size"] == kByteVocabulary)
    return data;  // the model's tokens are bytes
  throw Error(
      ErrorCode::missing_file,
      "'" + asked.model + "' has no tokenizer, so the text of '" + data.path + "' would be read as bytes",
      "put the model's tokenizer.json and tokenizer_config.json into that folder, or give tokens "
      "(rush.tokens, or \"tokens\" in the lines of rush.documents)",
      asked.where);
}

RunSpec ModelTokens::of(RunSpec spec, const std::string& where) {
  const auto replace = [&](DataSpec& data) {
    const Asked asked{data, checkpoint_of(spec).string(),
                      pair_tokens_ > 0 ? pair_tokens_ : spec.train.seq_len + 2, where};
    const auto key = to_json(data).dump() + asked.model;
    if (!made_.contains(key)) made_[key] = model_tokens(asked);
    data = made_.at(key);
  };
  replace(spec.data);
  if (spec.validate.every > 0) replace(spec.validate.data);
  return spec;
}

Expanded ModelTokens::of(Experiment described) {
  Expanded before(std::move(described));
  if (std::ranges::none_of(before.variants, [](const Variant& variant) { return has_text(variant); }))
    return before;
  Experiment experiment = before.experiment;
  const RunSpec base = experiment.base;
  pair_tokens_ = base.train.seq_len + 2;
  experiment.base = of(base, "");
  const auto replace_data = [&](Rung& rung) {
    Json of_data = Json::object();
    for (const char* key : {"model_kind", "model", "data"})
      if (rung.settings.contains(key)) of_data[key] = rung.settings[key];
    if (of_data.empty()) return;
    const RunSpec asked = merged(base, of_data, rung.where);
    if (rung.settings.contains("data") || checkpoint_of(asked) != checkpoint_of(base))
      rung.settings["data"] = to_json(of(asked, rung.where).data);
  };
  for (auto& part : experiment.parts) {
    for (auto& rung : part.rungs) replace_data(rung);
    for (auto& axis : part.axes)
      for (auto& rung : axis) replace_data(rung);
  }
  Expanded after(std::move(experiment));
  for (size_t i = 0; i < before.variants.size(); ++i) {
    const Variant& asked = before.variants[i];
    if (to_json(of(asked.spec, asked.where).data) != to_json(after.variants.at(i).spec.data))
      throw Error(
          ErrorCode::conflict,
          "rung '" + asked.name + "' combines a checkpoint with text that another rung's tokenizer converted",
          "give each checkpoint tokens: " +
              command_of({asked.spec.data, checkpoint_of(asked.spec).string(), pair_tokens_, ""}),
          asked.where);
  }
  return after;
}
}  // namespace optrush
