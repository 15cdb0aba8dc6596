#include "data/documents.h"

#include <algorithm>
#include <cstring>

#include "base/files.h"
#include "data/text_source.h"
#include "optrush/error.h"
#include "optrush/json.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr int64_t kBytes = 256;
constexpr uint64_t kMostTokens = uint64_t{1} << 31;  // of a vocabulary

const char* const kForms =
    R"(a line is {"prompt": "...", "completion": "..."}, {"text": "..."} or {"tokens": [...], "prompt_tokens": 0})";

std::string text_field(const Json& line, const char* name, const std::string& where) {
  if (!line.contains(name)) return "";
  if (!line[name].is_string()) throw Error("'" + std::string(name) + "' has to be a string", kForms, where);
  return line[name].get<std::string>();
}

uint32_t token_of(const Json& value, const std::string& where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMostTokens)
    throw Error("'tokens' has " + value.dump().substr(0, 40) + ", which is no number of a token", kForms,
                where);
  return static_cast<uint32_t>(value.get<uint64_t>());
}

int64_t prompt_of(const Json& line, size_t tokens, const std::string& where) {
  if (!line.contains("prompt_tokens")) return 0;
  const Json& given = line["prompt_tokens"];
  if (!given.is_number_unsigned() || given.get<uint64_t>() > tokens)
    throw Error(
        "'prompt_tokens' is how many of the document's tokens are given: 0 to " + std::to_string(tokens),
        kForms, where);
  return given.get<int64_t>();
}
}  // namespace

Documents::Documents(const fs::path& path, const std::vector<std::string>& extensions, int64_t most_tokens)
    : most_tokens_(most_tokens) {
  if (!fs::is_directory(path)) {
    read_lines(path);
    return;
  }
  for (const fs::path& file : text_files({.kind = "text", .path = path.string(), .extensions = extensions})) {
    const std::string text = read_file(file);
    if (text.empty()) continue;
    if (const size_t bad = invalid_utf8(text, false, false); bad != std::string::npos)
      throw Error("'" + file.string() + "' is not UTF-8 at byte " + std::to_string(bad),
                  "convert it to UTF-8, or leave it out by data.extensions");
    add_text("", text);
  }
  if (count() == 0)
    throw Error("no documents in '" + path.string() + "'", "give a folder that holds UTF-8 text");
}

std::span<const uint32_t> Documents::tokens(int64_t document) const {
  const auto i = static_cast<size_t>(document);
  return std::span(tokens_).subspan(static_cast<size_t>(begins_[i]),
                                    static_cast<size_t>(begins_[i + 1] - begins_[i]));
}

/// A token a byte, and a 0 behind the last one: the end is something to learn, too.
void Documents::add_text(const std::string& prompt, const std::string& completion) {
  for (const std::string& part : {prompt, completion})
    for (const char c : part) add(static_cast<unsigned char>(c));
  add(0);
  vocab_size_ = std::max(vocab_size_, kBytes);
  end_document(static_cast<int64_t>(prompt.size()), "");
}

void Documents::add(uint32_t token) {
  if (static_cast<int64_t>(tokens_.size()) - begins_.back() < most_tokens_) tokens_.push_back(token);
}

void Documents::end_document(int64_t prompt, const std::string& where) {
  const auto end = static_cast<int64_t>(tokens_.size());
  if (end - begins_.back() < 2)
    throw Error("a document has two tokens at least: one is read and the next one is predicted", kForms,
                where);
  begins_.push_back(end);
  prompts_.push_back(prompt);
}

void Documents::read_lines(const fs::path& path) {
  const std::string text = read_file(path);
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    read_line(line, path.string() + ":" + std::to_string(number));
  }
  if (count() == 0) throw Error("'" + path.string() + "' has no documents", kForms);
}

void Documents::read_line(const std::string& text, const std::string& where) {
  const Json line = parse_json(text, where);
  if (!line.is_object()) throw Error("a document is a JSON object", kForms, where);
  if (line.contains("tokens")) {
    const Json& tokens = line["tokens"];
    if (!tokens.is_array()) throw Error("'tokens' has to be a list of numbers", kForms, where);
    for (const Json& token : tokens) {
      const uint32_t number = token_of(token, where);
      add(number);
      vocab_size_ = std::max(vocab_size_, int64_t{number} + 1);
    }
    end_document(prompt_of(line, tokens.size(), where), where);
    return;
  }
  if (line.contains("messages"))
    throw Error("'messages' need the template of a model's chats",
                "apply it first: write tokens and prompt_tokens", where);
  const std::string completion = text_field(line, line.contains("text") ? "text" : "completion", where);
  if (completion.empty()) throw Error("the document has nothing to predict", kForms, where);
  add_text(text_field(line, "prompt", where), completion);
}
}  // namespace optrush
