#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "optrush/error.h"

namespace optrush {
MappedFile::MappedFile(const std::filesystem::path& path) {
  const auto fail = [&](int code) {
    throw Error(code == ENOENT ? ErrorCode::missing_file : ErrorCode::file_access,
                "cannot read '" + path.string() + "': " + std::strerror(code),
                "check the path and its permissions");
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(errno);
  struct stat status = {};
  int problem = ::fstat(fd, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
  if (problem == 0 && !S_ISREG(status.st_mode)) problem = EINVAL;  // for example a pipe or a device
  if (problem == 0 && status.st_size > 0) {
    size_ = static_cast<size_t>(status.st_size);
    void* const address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED)
      problem = errno;
    else
      data_ = static_cast<const std::byte*>(address);
  }
  ::close(fd);
  if (problem != 0) fail(problem);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
}  // namespace optrush
