#include "data/text_tokens.h"

#include <filesystem>

#include "base/files.h"
#include "base/installation.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "optrush/python.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr int64_t kBytes = 256;

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
      std::string& text = all.emplace_back();
      for (const int64_t token : one) text += static_cast<char>(token);
    }
    return all;
  }
  int64_t end() const override { return -1; }
};

/// A process for each question: a run asks twice.
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
    std::string pattern = (fs::temp_directory_path() / "optrush-tokens-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw Error("no temporary folder can be made", "set TMPDIR");
    const fs::path work = pattern;
    struct Removed {
      const fs::path& folder;
      ~Removed() {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
      }
    } const removed{work};
    write_json(work / "question.json", question);
    const fs::path script = Installation::of_this_program().scripts / "text_tokens.py";
    const int code = run_python({script.string(), folder_.string(), (work / "question.json").string(),
                                 (work / "answer.json").string()},
                                work / "log.txt");
    if (code != 0)
      throw Error("the tokenizer of '" + folder_.string() + "' can't be used: " + read_file(work / "log.txt"),
                  "install transformers (./optrush setup, or pip install transformers), or leave sample out");
    return read_json(work / "answer.json");
  }

  fs::path folder_;
  int64_t end_ = -1;
};
}  // namespace

std::unique_ptr<TextTokens> open_text_tokens(const std::string& checkpoint, int64_t vocab_size) {
  if (!checkpoint.empty() && fs::exists(fs::path(checkpoint) / "tokenizer.json"))
    return std::make_unique<Tokenizer>(checkpoint);
  if (vocab_size < kBytes)
    throw Error("sample: without a tokenizer a token is a byte, and the model has " +
                    std::to_string(vocab_size) + " tokens",
                "give a checkpoint with tokenizer.json, or a vocab_size of 256 or more");
  return std::make_unique<Bytes>();
}
}  // namespace optrush
