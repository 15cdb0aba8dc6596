#include "spec/data_line.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr std::string_view kBlanks = " \t\r\n\xef\xbb\xbf";

/// A file of another format, recognized by its first bytes, or by its extension if they are not given.
struct Format {
  std::string_view bytes, extension, name, cure;
};
constexpr std::string_view kUnpack = "unpack it first";
constexpr std::array kFormats = {
    Format{"PAR1", "", "Parquet",
           "python -c \"import pandas; pandas.read_parquet('FILE').to_json('lines.jsonl', orient='records', "
           "lines=True)\""},
    Format{"ARROW1", "", "Arrow",
           "python -c \"import datasets; datasets.Dataset.from_file('FILE').to_json('lines.jsonl')\""},
    Format{"", ".csv", "CSV",
           "python -c \"import pandas; pandas.read_csv('FILE').to_json('lines.jsonl', orient='records', "
           "lines=True)\""},
    Format{"", ".tsv", "tab-separated",
           "python -c \"import pandas; pandas.read_csv('FILE', sep='\\t').to_json('lines.jsonl', "
           "orient='records', lines=True)\""},
    Format{"\x1f\x8b", "", "gzip", kUnpack},
    Format{"\x28\xb5\x2f\xfd", "", "zstd", kUnpack},
    Format{"\xfd"
           "7zXZ",
           "", "xz", kUnpack},
    Format{"BZh", "", "bzip2", kUnpack},
    Format{"PK\x03\x04", "", "zip", kUnpack},
};

void refuse_other_format(const fs::path& path, const std::string& where) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(8, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(file.gcount()));
  const size_t first = begin.find_first_not_of(kBlanks);
  if (first != std::string::npos && (begin[first] == '{' || begin[first] == '[')) return;
  const auto* format = std::ranges::find_if(kFormats, [&](const Format& one) {
    return one.bytes.empty() ? path.extension() == one.extension : begin.starts_with(one.bytes);
  });
  if (format == kFormats.end()) return;
  throw Error(
      ErrorCode::invalid_file,
      "'" + path.string() + "' is a " + std::string(format->name) + " file; the data must be JSON lines",
      filled_in(std::string(format->cure), {{"FILE", path.string()}}), where);
}
}  // namespace

bool is_chat(const Json& line) {
  constexpr std::array kOfChats = {"messages", "conversations", "conversation", "instruction"};
  constexpr std::array kParts = {"prompt", "completion", "chosen", "rejected"};
  if (line.contains("tokens")) return false;
  return std::ranges::any_of(kOfChats, [&](const char* name) { return line.contains(name); }) ||
         std::ranges::any_of(kParts, [&](const char* name) {
           const auto part = line.find(name);
           return part != line.end() && part->is_array() && !part->empty() && part->front().is_object();
         });
}

Json first_data_line(const fs::path& path) {
  std::ifstream file(path);
  const auto skip_blanks = [&] {
    while (file.peek() != EOF && kBlanks.find(static_cast<char>(file.peek())) != std::string_view::npos)
      file.get();
  };
  skip_blanks();
  if (file.peek() == '[') {
    file.get();
    skip_blanks();
  }
  Json line;
  try {
    file >> line;
  } catch (const Json::exception&) {
    return nullptr;
  }
  return line;
}

void check_lines(const fs::path& path, const std::string& kind, const std::string& where) {
  refuse_other_format(path, where);
  const Json line = first_data_line(path);
  if (!line.is_object()) return;
  const bool pair = line.contains("chosen") && line.contains("rejected");
  const std::string of_file = "'" + path.string() + "' has ";
  if (kind == "documents" && pair)
    throw Error(ErrorCode::invalid_file,
                of_file + "pairs of answers ('chosen' and 'rejected'), not documents",
                "read them by rush.preferences; rush.documents reads messages, texts, or "
                "prompts with completions",
                where);
  constexpr std::array kOfDocuments = {"messages", "conversations", "conversation", "instruction",
                                       "text",     "completion",    "tokens",       "input_ids"};
  const auto* field =
      std::ranges::find_if(kOfDocuments, [&](const char* name) { return line.contains(name); });
  if (kind == "preferences" && !line.contains("chosen") && !line.contains("rejected") &&
      field != kOfDocuments.end())
    throw Error(
        ErrorCode::invalid_file,
        of_file + "documents (its first line has '" + *field + "'), not pairs of answers",
        "read them by rush.documents; rush.preferences reads lines with 'prompt', 'chosen' and 'rejected'",
        where);
}
}  // namespace optrush
