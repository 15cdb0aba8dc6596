#include "kept_choices.h"

#include <c10/util/hash.h>

#include <array>
#include <charconv>
#include <fstream>
#include <optional>

#include "file_lock/file_lock.h"
#include "optrush/error.h"

namespace optrush::cublaslt_matmul {
namespace fs = std::filesystem;
namespace {
constexpr int kFormat = 1;
constexpr const char* kFolderCure = "make the cache folder writable, or set OPTRUSH_CACHE to another folder";
constexpr size_t kDigits = 16;  // of a number in base 16

std::string text_of(const Algorithm& algorithm) {
  std::string text;
  for (const uint64_t number : algorithm.data) {
    std::array<char, kDigits> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + kDigits, number, 16).ptr;
    const std::string_view shown(digits.data(), static_cast<size_t>(end - digits.data()));
    text.append(kDigits - shown.size(), '0').append(shown);
  }
  return text;
}

std::optional<Algorithm> algorithm_of(const std::string& text) {
  Algorithm algorithm;
  if (text.size() != kDigits * algorithm.data.size()) return {};
  for (size_t i = 0; i < algorithm.data.size(); ++i) {
    const char* begin = text.data() + i * kDigits;
    const auto read = std::from_chars(begin, begin + kDigits, algorithm.data[i], 16);
    if (read.ec != std::errc() || read.ptr != begin + kDigits) return {};
  }
  return algorithm;
}

void replace(const fs::path& file, const Json& content) {
  const fs::path part = file.string() + ".part";  // under the lock there is one
  std::ofstream out(part);
  out << content.dump(1) << '\n';
  out.close();
  if (!out)
    throw Error(ErrorCode::file_access, "cannot write " + part.string(),
                "check the disk space, or set OPTRUSH_CACHE to another folder");
  fs::rename(part, file);
}
}  // namespace

KeptChoices::KeptChoices(const fs::path& folder, const KeptFor& kept)
    : key_({{"format", kFormat},
            {"card", kept.card},
            {"architecture", kept.architecture},
            {"cublaslt", kept.version},
            {"candidates", kept.limits.candidates},
            {"workspace", kept.limits.workspace}}),
      file_(folder / (c10::sha1(key_.dump()).str() + ".json")) {}

Choices KeptChoices::read(std::string* damage) const {
  std::ifstream in(file_);
  if (!in) return {};
  const auto damaged = [&](const std::string& why) {
    if (damage != nullptr) *damage = why;
    return Choices{};
  };
  const Json stored = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!stored.is_object() || !stored.contains("algorithms") || !stored["algorithms"].is_object())
    return damaged("it is not the JSON of a list of algorithms");
  if (!stored.contains("for") || stored["for"] != key_) return damaged("it is for another card or format");
  Choices choices;
  for (const auto& [shape, text] : stored["algorithms"].items()) {
    const auto algorithm = text.is_string() ? algorithm_of(text.get<std::string>()) : std::nullopt;
    if (!algorithm) return damaged("the algorithm of '" + shape + "' is not 64 bytes in base 16");
    choices[shape] = *algorithm;
  }
  return choices;
}

void KeptChoices::add(const Choices& choices) const {
  std::error_code failed;
  fs::create_directories(file_.parent_path(), failed);
  if (failed)
    throw Error(ErrorCode::file_access, "cannot make the folder " + file_.parent_path().string(),
                kFolderCure);
  // Another file is locked, because the file itself is replaced.
  const FileLock lock(file_.string() + ".lock", kFolderCure);
  Choices all = read();
  all.insert(choices.begin(), choices.end());
  Json algorithms = Json::object();
  for (const auto& [shape, algorithm] : all) algorithms[shape] = text_of(algorithm);
  replace(file_, {{"for", key_}, {"algorithms", algorithms}});
}
}  // namespace optrush::cublaslt_matmul
