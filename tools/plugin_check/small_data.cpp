#include "plugin_check/small_data.h"

#include <random>

#include "base/files.h"
#include "optrush/json.h"

namespace optrush {
namespace {
constexpr int64_t kDocuments = 64, kLongest = 17, kVocabulary = 64;

class Tokens {
 public:
  int64_t below(int64_t limit) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(limit)); }
  Json some(int64_t count) {
    Json tokens = Json::array();
    for (int64_t i = 0; i < count; ++i) tokens.push_back(below(kVocabulary));
    return tokens;
  }

 private:
  std::mt19937_64 engine_{1};  // same values in every standard library
};

std::string documents() {
  Tokens tokens;
  std::string lines;
  for (int64_t i = 0; i < kDocuments; ++i) {
    const int64_t length = 2 + tokens.below(kLongest - 1);
    lines +=
        Json{{"tokens", tokens.some(length)}, {"prompt_tokens", i % 4 == 0 ? length / 2 : 0}}.dump() + "\n";
  }
  return lines;
}

std::string preferences() {
  Tokens tokens;
  std::string lines;
  for (int64_t i = 0; i < kDocuments / 2; ++i) {
    Json line;
    for (const char* part : {"prompt", "chosen", "rejected"})
      line[part] = tokens.some(1 + tokens.below(kLongest / 2));
    lines += line.dump() + "\n";
  }
  return lines;
}

std::string file_of(const std::string& kind) { return kind + ".jsonl"; }
}  // namespace

DataSpec small_data(const std::string& kind) {
  return {.kind = kind, .path = file_of(kind), .extensions = {}};
}

void write_small_data(const std::filesystem::path& folder) {
  write_file(folder / file_of("documents"), documents());
  write_file(folder / file_of("preferences"), preferences());
}
}  // namespace optrush
