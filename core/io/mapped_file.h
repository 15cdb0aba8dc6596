#pragma once
#include <cstddef>
#include <filesystem>
#include <span>

namespace optrush {
/// The bytes of a file, mapped read-only. They are the file's: a program that overwrites it in place changes
/// them.
class MappedFile {
 public:
  /// An Error names the path where it is no file or can't be mapped. An empty file has no bytes.
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
