#pragma once
#include <string>
#include <vector>

#include "base/listed_files.h"
#include "data/token_source.h"

namespace optrush {
/// The text of a UTF-8 file, or of all files of a folder in order of their paths with a 0 byte between two.
/// One token per byte. Opening reads only file sizes. Text that a sample reads must be valid UTF-8.
class TextSource final : public TokenSource {
 public:
  TextSource(const DataSpec&, uint64_t seed, int64_t sample_length, const Share& share = {});

  int64_t vocab_size() const override { return 256; }
  int64_t count() const override { return windows_.count(); }
  void sample(int64_t index, std::span<int64_t> tokens) const override;

 private:
  struct File {
    std::string path;
    int64_t begin, size;  ///< position and size in the joined text, in bytes
  };
  static std::vector<File> files_of(const DataSpec&);

  std::vector<File> files_;
  Windows windows_;
};

/// The file, or the selected files of a folder, in order of their paths.
std::vector<ListedFile> text_files(const DataSpec&);

/// Offset of the first invalid byte of UTF-8, or npos. The text may begin `inside` a character, or be `cut`.
size_t invalid_utf8(std::string_view text, bool inside, bool cut);
}  // namespace optrush
