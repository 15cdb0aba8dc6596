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
/// One tensor of a safetensors file; its data are the bytes [begin, end) of the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< as the format writes it: "BF16"
  std::vector<int64_t> shape;
  size_t begin = 0, end = 0;
};

/// Texts by name that a file carries beside its tensors ("__metadata__").
using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in order of their data
  SafetensorsMetadata metadata;
};

/// Reads and checks the header of the format (https://github.com/huggingface/safetensors): every tensor lies
/// inside the file, with the size of its shape, without overlap and without holes.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& origin);

/// A safetensors file, mapped. Data is read only when the bytes of a tensor are read.
class SafetensorsView {
 public:
  explicit SafetensorsView(const std::filesystem::path&);

  bool contains(std::string_view name) const { return entries_.contains(name); }
  /// An Error where the file has no such tensor.
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
