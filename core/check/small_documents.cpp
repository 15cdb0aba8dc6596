#include "check/small_documents.h"

#include <random>

#include "base/files.h"
#include "optrush/json.h"

namespace optrush {
namespace {
constexpr const char* kFile = "documents.jsonl";
constexpr int64_t kDocuments = 64, kLongest = 17, kVocabulary = 64;
}  // namespace

DataSpec small_documents() { return {.kind = "documents", .path = kFile, .extensions = {}}; }

void write_small_documents(const std::filesystem::path& folder) {
  std::mt19937_64 engine(1);  // its values are the same with every library
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(engine() % static_cast<uint64_t>(limit));
  };
  std::string lines;
  for (int64_t i = 0; i < kDocuments; ++i) {
    Json tokens = Json::array();
    const int64_t length = 2 + below(kLongest - 1);
    for (int64_t k = 0; k < length; ++k) tokens.push_back(below(kVocabulary));
    lines += Json{{"tokens", tokens}, {"prompt_tokens", i % 4 == 0 ? length / 2 : 0}}.dump() + "\n";
  }
  write_file(folder / kFile, lines);
}
}  // namespace optrush
