#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/mapped_file.h"

namespace optrush {
/// A tensor of a safetensors file. Its data are the bytes [begin, end) of the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< as the format writes it: "BF16"
  std::vector<int64_t> shape;
  size_t begin = 0, end = 0;
};

/// Named texts of a file ("__metadata__").
using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in order of their data
  SafetensorsMetadata metadata;
};

/// Reads and checks the header (https://github.com/huggingface/safetensors). Every tensor must lie inside the
/// file and have the size of its shape; there must be no overlaps and no gaps.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& origin);

/// A mapped safetensors file. The bytes of a tensor are read from disk on first access.
class SafetensorsView {
 public:
  explicit SafetensorsView(const std::filesystem::path&);

  bool contains(std::string_view name) const { return entries_.contains(name); }
  /// Throws an Error if the file has no such tensor.
  const SafetensorsEntry& entry(std::string_view name) const;
  std::span<const std::byte> bytes(const SafetensorsEntry&) const;
  std::vector<std::string> names() const;
  const SafetensorsMetadata& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  MappedFile file_;
  std::map<std::string, SafetensorsEntry, std::less<>> entries_;
  SafetensorsMetadata metadata_;
};
}  // namespace optrush
