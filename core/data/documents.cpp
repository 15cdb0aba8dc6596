#include "data/documents.h"

#include <algorithm>

#include "base/files.h"
#include "base/text.h"
#include "data/text_source.h"
#include "optrush/error.h"
#include "spec/data_line.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr int64_t kBytes = 256;
constexpr uint64_t kMostTokens = uint64_t{1} << 31;  // limit for a vocabulary

const char* const kPairs =
    R"(write lines of {"prompt": "...", "chosen": "...", "rejected": "..."}, each a string or a list of tokens)";
const char* const kForms =
    R"(write lines of {"prompt": "...", "completion": "..."}, {"text": "..."} or {"tokens": [...]} with "prompt_tokens": 2 or "trained": [[2, 5]])";

[[noreturn]] void refuse_line(const std::string& what, const std::string& where, const char* cure = kForms) {
  throw Error(ErrorCode::invalid_file, what, cure, where);
}

std::string text_field(const Json& line, const char* name, const std::string& where) {
  if (!line.contains(name)) return "";
  if (!line[name].is_string()) refuse_line("'" + std::string(name) + "' must be a string", where);
  return line[name].get<std::string>();
}

uint32_t token_of(const Json& value, const std::string& name, const std::string& cure,
                  const std::string& where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMostTokens)
    throw Error(ErrorCode::invalid_file,
                "'" + name + "' has " + value.dump().substr(0, 40) + ", which is not a token id", cure,
                where);
  return static_cast<uint32_t>(value.get<uint64_t>());
}

/// The values of one document among the values of all.
template <class T>
std::span<const T> part_of(const std::vector<T>& all, const std::vector<int64_t>& begins, int64_t document) {
  const auto i = static_cast<size_t>(document);
  return std::span(all).subspan(static_cast<size_t>(begins[i]),
                                static_cast<size_t>(begins[i + 1] - begins[i]));
}

bool is_up_to(const Json& value, size_t most) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= most;
}

/// The tokens of a line that have a loss.
std::vector<TokenSpan> trained_of(const Json& line, size_t tokens, const std::string& where) {
  const bool has_prompt = line.contains("prompt_tokens");
  if (!line.contains("trained")) {
    const Json& given = has_prompt ? line["prompt_tokens"] : Json(0U);
    if (!is_up_to(given, tokens))
      refuse_line("'prompt_tokens' must be the number of prompt tokens of the document: 0 to " +
                      std::to_string(tokens),
                  where);
    const auto prompt = given.get<int64_t>();
    return prompt < static_cast<int64_t>(tokens) ? std::vector<TokenSpan>{{prompt, INT64_MAX}}
                                                 : std::vector<TokenSpan>();
  }
  if (has_prompt) refuse_line("a document must have either 'prompt_tokens' or 'trained', not both", where);
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_file, "'trained' " + what,
                "give ordered ranges [begin, end) that do not overlap: [[2, 5]] is the tokens 2, 3 and 4",
                where);
  };
  std::vector<TokenSpan> spans;
  if (!line["trained"].is_array()) refuse("must be a list");
  for (const Json& span : line["trained"]) {
    const std::string shown = span.dump().substr(0, 40);
    if (!span.is_array() || span.size() != 2) refuse("has " + shown + ", which is not a pair of numbers");
    if (!is_up_to(span[0], tokens) || !is_up_to(span[1], tokens))
      refuse("has " + shown + " but the document has " + counted(tokens, "token"));
    const TokenSpan read{span[0].get<int64_t>(), span[1].get<int64_t>()};
    if (read.begin >= read.end || (!spans.empty() && read.begin < spans.back().end))
      refuse("has " + span.dump() +
             (read.begin >= read.end ? ", which is empty"
                                     : ", which starts before the end of the range before it"));
    spans.push_back(read);
  }
  return spans;
}

/// Parses one line. The parser's message always names line 1, because each line is parsed alone.
Json json_of(const std::string& text, const std::string& where) {
  try {
    return parse_json(text, where);
  } catch (const Error& e) {
    std::string message = e.message();
    const std::string line = "parse error at line 1, ";
    if (const size_t at = message.find(line); at != std::string::npos) message.erase(at, line.size());
    throw Error(ErrorCode::invalid_file, message, "write one JSON object per line, as json.dumps does",
                where);
  }
}

std::string fields_of(const Json& line) {
  std::string names;
  for (const auto& [name, value] : line.items()) names += (names.empty() ? "'" : ", '") + name + "'";
  return names.empty() ? "" : ": it has " + names;
}
}  // namespace

Documents::Documents(const fs::path& path, const std::vector<std::string>& extensions, int64_t most_tokens,
                     Form form, std::string tokenizer)
    : form_(form), most_tokens_(most_tokens), tokenizer_(std::move(tokenizer)) {
  if (!fs::is_directory(path)) {
    read_lines(path);
    return;
  }
  refuse_text(path.string());
  std::vector<std::string> texts;
  for (const auto& [file, size, written] :
       text_files({.kind = "text", .path = path.string(), .extensions = extensions})) {
    const std::string text = read_file(file);
    if (text.empty()) continue;
    if (const size_t bad = invalid_utf8(text, false, false); bad != std::string::npos)
      throw Error(ErrorCode::invalid_file, "'" + file + "' is not UTF-8 at byte " + std::to_string(bad),
                  "convert it to UTF-8, or leave it out by data.extensions");
    if (form == Form::pairs)
      // Keeps the end of a long text, because beginnings are often alike.
      texts.push_back(text.substr(text.size() - std::min(text.size(), static_cast<size_t>(most_tokens))));
    else
      add_text("", text);
  }
  if (form == Form::pairs) add_pairs(texts);
  if (count() == 0)
    throw Error(ErrorCode::invalid_file, "no documents in '" + path.string() + "'",
                "give a folder that holds UTF-8 text");
}

std::span<const uint32_t> Documents::tokens(int64_t document) const {
  return part_of(tokens_, begins_, document);
}

std::span<const TokenSpan> Documents::trained(int64_t document) const {
  return part_of(trained_, trained_begins_, document);
}

/// Adds one token per byte and a final 0, because the end of a text is also learned.
void Documents::add_text(const std::string& prompt, const std::string& completion) {
  for (const char c : prompt + completion) add(static_cast<unsigned char>(c));
  add(0);
  vocab_size_ = std::max(vocab_size_, kBytes);
  end_document(static_cast<int64_t>(prompt.size()), "");
}

/// Makes a preference pair of each text. Its first half is the prompt, its second half the chosen answer, and
/// an equally long part of the second half of the next different text is the rejected answer.
void Documents::add_pairs(const std::vector<std::string>& texts) {
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t half = texts[i].size() / 2;
    const std::string prompt = texts[i].substr(0, half), chosen = texts[i].substr(half);
    std::string rejected = chosen;
    for (size_t next = 1; next < texts.size() && rejected == chosen; ++next) {
      const std::string& other = texts[(i + next) % texts.size()];
      rejected = other.substr(other.size() / 2).substr(0, chosen.size());
    }
    if (rejected == chosen)
      throw Error(ErrorCode::invalid_file, "pairs need two texts with different answers", kPairs);
    add_text(prompt, chosen);
    add_text(prompt, rejected);
  }
}

void Documents::add(uint32_t token) {
  vocab_size_ = std::max(vocab_size_, int64_t{token} + 1);
  if (static_cast<int64_t>(tokens_.size()) - begins_.back() < most_tokens_) tokens_.push_back(token);
}

void Documents::end_document(const std::vector<TokenSpan>& trained, const std::string& where) {
  const auto end = static_cast<int64_t>(tokens_.size());
  if (end - begins_.back() < 2)
    refuse_line("a document must have at least two tokens: the model reads one and predicts the next", where);
  begins_.push_back(end);
  for (const TokenSpan& span : trained)
    if (span.end > 1) trained_.push_back({std::max<int64_t>(span.begin, 1), span.end});
  trained_begins_.push_back(static_cast<int64_t>(trained_.size()));
}

void Documents::refuse_text(const std::string& where) const {
  if (!tokenizer_.empty())
    throw Error(ErrorCode::invalid_value,
                "the text would be read as bytes, but the checkpoint has a different tokenizer",
                "optrush tokenize FILE tokens.jsonl --model " + tokenizer_, where);
}

void Documents::read_lines(const fs::path& path) {
  const std::string text = read_file(path);
  if (const size_t first = text.find_first_not_of("\xef\xbb\xbf \t\r\n");
      first != std::string::npos && text[first] == '[')
    throw Error(ErrorCode::invalid_file, "'" + path.string() + "' is a JSON array",
                "write one object per line, as jq -c '.[]' FILE does; optrush tokenize reads both forms",
                path.string() + ":1");
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    read_line(line, path.string() + ":" + std::to_string(number));
  }
  if (count() == 0) throw Error(ErrorCode::invalid_file, "'" + path.string() + "' has no documents", kForms);
}

void Documents::read_line(const std::string& text, const std::string& where) {
  const Json line = json_of(text, where);
  if (!line.is_object()) refuse_line("a document must be a JSON object", where);
  if (is_chat(line))
    throw Error(ErrorCode::invalid_file, "conversations need the tokenizer and the chat template of a model",
                "convert the file first: optrush tokenize FILE OUT --model FOLDER", where);
  if (form_ == Form::pairs) return read_pair(line, where);
  if (line.contains("tokens")) {
    const Json& tokens = line["tokens"];
    if (!tokens.is_array()) refuse_line("'tokens' must be a list of token ids", where);
    for (const Json& token : tokens) add(token_of(token, "tokens", kForms, where));
    end_document(trained_of(line, tokens.size(), where), where);
    return;
  }
  const std::string completion = text_field(line, line.contains("text") ? "text" : "completion", where);
  if (completion.empty()) refuse_line("the document has no token to train on" + fields_of(line), where);
  refuse_text(where);
  add_text(text_field(line, "prompt", where), completion);
}

/// Strings become one token per byte and a final 0, like documents; tokens are used as they are.
void Documents::read_pair(const Json& line, const std::string& where) {
  const auto part = [&](const char* name) {
    const Json& given = line.contains(name) ? line[name] : Json();
    std::vector<uint32_t> tokens;
    if (given.is_string()) {
      refuse_text(where);
      for (const char c : given.get<std::string>()) tokens.push_back(static_cast<unsigned char>(c));
      if (std::string_view(name) != "prompt") tokens.push_back(0);
      vocab_size_ = std::max(vocab_size_, kBytes);
    } else if (given.is_array()) {
      for (const Json& token : given) tokens.push_back(token_of(token, name, kPairs, where));
    } else {
      refuse_line(
          "'" + std::string(name) + "' is " + (given.is_null() ? "missing" : "neither text nor token ids"),
          where, kPairs);
    }
    if (tokens.empty()) refuse_line("'" + std::string(name) + "' is empty", where, kPairs);
    return tokens;
  };
  const auto prompt = part("prompt");
  for (const char* name : {"chosen", "rejected"}) {
    const auto answer = part(name);
    for (const auto* tokens : {&prompt, &answer})
      for (const uint32_t token : *tokens) add(token);
    end_document(static_cast<int64_t>(prompt.size()), where);
  }
}
}  // namespace optrush
