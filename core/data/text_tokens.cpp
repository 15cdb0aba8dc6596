#include "data/text_tokens.h"

#include <filesystem>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "checkpoint/tokenizer_files.h"
#include "data/text_source.h"
#include "machine/installation.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "optrush/machine.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr int64_t kByteTokens = 256;

/// Replaces invalid UTF-8, because a model of bytes may produce incomplete characters.
std::string valid_utf8(std::string text) {
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
  for (size_t bad = 0; (bad = invalid_utf8(text, false, false)) != std::string::npos;)
    text.replace(bad, 1, kReplacement);
  return text;
}

class Bytes final : public TextTokens {
 public:
  std::vector<std::vector<int64_t>> tokens(const std::vector<std::string>& texts) const override {
    std::vector<std::vector<int64_t>> all;
    for (const std::string& text : texts) {
      auto& tokens = all.emplace_back();
      for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    }
    return all;
  }
  std::vector<std::string> texts(const std::vector<std::vector<int64_t>>& tokens) const override {
    std::vector<std::string> all;
    for (const auto& one : tokens) {
      std::string text;
      for (const int64_t token : one) text += static_cast<char>(token);
      all.push_back(valid_utf8(std::move(text)));
    }
    return all;
  }
  int64_t end() const override { return -1; }
};

/// Starts a process for each call, because a run makes only two calls.
class Tokenizer final : public TextTokens {
 public:
  explicit Tokenizer(fs::path folder) : folder_(std::move(folder)) {
    const Json answer = asked({{"tokens", Json::array()}});
    end_ = answer.at("end").get<int64_t>();
  }
  std::vector<std::vector<int64_t>> tokens(const std::vector<std::string>& texts) const override {
    return asked({{"texts", texts}}).at("tokens").get<std::vector<std::vector<int64_t>>>();
  }
  std::vector<std::string> texts(const std::vector<std::vector<int64_t>>& tokens) const override {
    return asked({{"tokens", tokens}}).at("texts").get<std::vector<std::string>>();
  }
  int64_t end() const override { return end_; }

 private:
  Json asked(Json question) const {
    const TemporaryFolder folder;
    const fs::path& work = folder.path();
    write_json(work / "question.json", question);
    const fs::path script = Installation::of_this_program().scripts / "text_tokens.py";
    const int code = run_python({script.string(), folder_.string(), (work / "question.json").string(),
                                 (work / "answer.json").string()},
                                work / "log.txt");
    if (code != 0)
      throw Error(
          ErrorCode::missing_requirement,
          "the tokenizer of '" + folder_.string() + "' can't be used: " + read_file(work / "log.txt"),
          "install transformers (./optrush setup peers, or pip install transformers), or leave out sample");
    return read_json(work / "answer.json");
  }

  fs::path folder_;
  int64_t end_ = -1;
};
}  // namespace

std::unique_ptr<TextTokens> open_text_tokens(const std::string& checkpoint, int64_t vocab_size) {
  if (!checkpoint.empty() && has_tokenizer(checkpoint)) return std::make_unique<Tokenizer>(checkpoint);
  if (checkpoint.empty() ? vocab_size < kByteTokens : vocab_size != kByteTokens)
    throw Error(ErrorCode::missing_file,
                "sample: " + (checkpoint.empty() ? std::string("the model") : "'" + checkpoint + "'") +
                    " has no tokenizer, and its " + std::to_string(vocab_size) + " tokens are not bytes",
                checkpoint.empty() ? "give the model a vocab_size of 256 or more, or leave out sample"
                                   : "put the model's tokenizer.json and tokenizer_config.json into that "
                                     "folder, or leave out sample");
  return std::make_unique<Bytes>();
}
}  // namespace optrush
