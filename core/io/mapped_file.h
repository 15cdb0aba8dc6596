#pragma once
#include <cstddef>
#include <filesystem>
#include <span>

namespace optrush {
/// A file mapped read-only. If another program overwrites the file in place, the bytes change.
class MappedFile {
 public:
  /// Throws an Error with the path if it is not a file or can't be mapped. An empty file has no bytes.
  explicit MappedFile(const std::filesystem::path&);
  ~MappedFile();
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};
}  // namespace optrush
