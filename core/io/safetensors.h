#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <c10/core/ScalarType.h>

#include "io/mapped_file.h"
#include "optrush/tensor.h"

namespace optrush {
/// One tensor of a safetensors file; its data are the bytes [begin, end) of the file.
struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
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

/// A safetensors file, mapped. Nothing of its data is read until a tensor is.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path&);

  bool contains(std::string_view name) const { return entries_.contains(name); }
  /// Both are an Error where the file has no such tensor.
  const SafetensorsEntry& entry(std::string_view name) const;
  /// A copy on the CPU, in the stored dtype.
  Tensor read(std::string_view name) const;
  std::vector<std::string> names() const;
  const SafetensorsMetadata& metadata() const { return metadata_; }

 private:
  std::string path_;
  MappedFile file_;
  std::map<std::string, SafetensorsEntry, std::less<>> entries_;
  SafetensorsMetadata metadata_;
};

/// Writes by temporary file and rename. Tensors may be on any device and have any strides; dtypes are kept.
void write_safetensors(const std::filesystem::path&, std::vector<std::pair<std::string, Tensor>> tensors,
                       const SafetensorsMetadata& metadata = {});
}  // namespace optrush
