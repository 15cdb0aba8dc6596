#include "data/text_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/contains.h"
#include "base/descriptor.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// Reads text.size() bytes of a file from `offset` on.
void read_at(const std::string& path, int64_t offset, std::span<char> text) {
  const auto fail = [&](int problem) {
    throw Error(ErrorCode::file_access, "cannot read '" + path + "': " + std::strerror(problem));
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail(errno);
  while (!text.empty()) {
    const ssize_t n = ::pread(file.get(), text.data(), text.size(), offset);
    if (n < 0 && errno != EINTR) fail(errno);
    if (n == 0)
      throw Error(ErrorCode::invalid_file, "'" + path + "' became shorter during the run",
                  "do not change the corpus during a run");
    const int64_t read = std::max<int64_t>(n, 0);
    text = text.subspan(static_cast<size_t>(read));
    offset += read;
  }
}

/// The same as std::filesystem::path::extension(): ".h" has no extension.
std::string_view extension_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? std::string_view() : name.substr(dot);
}
}  // namespace

std::vector<ListedFile> text_files(const DataSpec& data) {
  for (const auto& extension : data.extensions)
    if (!extension.starts_with('.'))
      throw Error(ErrorCode::invalid_value, "data.extensions: '" + extension + "' has no dot",
                  "write '." + extension + "'");
  const fs::path root = data.path;
  std::error_code unreadable;  // for example a link to itself
  if (!fs::exists(root, unreadable))
    throw Error(ErrorCode::missing_file, "data.path '" + data.path + "' does not exist",
                "give a UTF-8 file or a folder");
  std::vector<ListedFile> files = listed_files(root, Unreadable::error);
  if (!fs::is_directory(root)) return files;
  if (!data.extensions.empty())
    std::erase_if(
        files, [&](const ListedFile& file) { return !contains(data.extensions, extension_of(file.path)); });
  std::ranges::sort(files, {}, &ListedFile::path);
  return files;
}

std::vector<TextSource::File> TextSource::files_of(const DataSpec& data) {
  std::vector<File> files;
  int64_t begin = 0;
  for (auto& [path, size, written] : text_files(data)) {
    if (size == 0) continue;
    files.push_back({std::move(path), begin, size});
    begin += size + 1;
  }
  if (files.empty())
    throw Error(ErrorCode::missing_file,
                "no text in '" + data.path + "'" +
                    (data.extensions.empty() ? "" : " in files that end in " + join(data.extensions)),
                "give a file or folder that holds UTF-8 text");
  return files;
}

TextSource::TextSource(const DataSpec& data, uint64_t seed, int64_t sample_length, const Share& share)
    : files_(files_of(data)),
      windows_(files_.back().begin + files_.back().size, sample_length, seed,
               "the text of '" + data.path + "'", share) {}

void TextSource::sample(int64_t index, std::span<int64_t> tokens) const {
  const int64_t begin = windows_.begin(index), end = begin + static_cast<int64_t>(tokens.size());
  std::string text(tokens.size(), '\0');
  auto file = std::prev(std::ranges::upper_bound(files_, begin, {}, &File::begin));
  for (; file != files_.end() && file->begin < end; ++file) {
    const int64_t from = std::max(begin, file->begin), to = std::min(end, file->begin + file->size);
    if (from >= to) continue;
    const int64_t offset = from - file->begin;
    const std::span<char> part(text.data() + (from - begin), static_cast<size_t>(to - from));
    read_at(file->path, offset, part);
    const size_t bad = invalid_utf8({part.data(), part.size()}, offset > 0, to < file->begin + file->size);
    if (bad != std::string::npos)
      throw Error(
          ErrorCode::invalid_file,
          "'" + file->path + "' is not UTF-8 at byte " + std::to_string(offset + static_cast<int64_t>(bad)),
          "convert it to UTF-8, or leave it out by data.extensions");
  }
  std::ranges::transform(text, tokens.begin(), [](char c) { return static_cast<unsigned char>(c); });
}

size_t invalid_utf8(std::string_view text, bool inside, bool cut) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  size_t i = 0;
  while (inside && i < std::min<size_t>(3, text.size()) && continues(i)) ++i;
  while (i < text.size()) {
    const unsigned first = byte(i);
    const size_t length = first < 0x80   ? 1
                          : first < 0xc2 ? 0
                          : first < 0xe0 ? 2
                          : first < 0xf0 ? 3
                          : first < 0xf5 ? 4
                                         : 0;
    if (length == 0) return i;
    for (size_t k = 1; k < length; ++k) {
      if (i + k == text.size()) return cut ? std::string_view::npos : i;
      if (!continues(i + k)) return i;
    }
    // Overlong forms, surrogates and values above U+10FFFF are recognized by the second byte.
    const unsigned second = length > 1 ? byte(i + 1) : 0;
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
      return i;
    i += length;
  }
  return std::string_view::npos;
}
}  // namespace optrush
