#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptor.h"
#include "optrush/error.h"

namespace optrush {
MappedFile::MappedFile(const std::filesystem::path& path) {
  const auto fail = [&](int code) {
    throw Error(code == ENOENT ? ErrorCode::missing_file : ErrorCode::file_access,
                "cannot read '" + path.string() + "': " + std::strerror(code),
                "check the path and its permissions");
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) fail(errno);
  if (S_ISDIR(status.st_mode)) fail(EISDIR);
  if (!S_ISREG(status.st_mode)) fail(EINVAL);  // for example a pipe or a device
  if (status.st_size == 0) return;
  size_ = static_cast<size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail(errno);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
}  // namespace optrush
