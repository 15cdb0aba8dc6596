#include "file_lock/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "optrush/error.h"

namespace optrush {
FileLock::FileLock(const std::filesystem::path& file, const std::string& cure)
    : descriptor_(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0 || flock(descriptor_, LOCK_EX) != 0)
    throw Error(ErrorCode::file_access, "cannot lock " + file.string(), cure);
}
FileLock::~FileLock() { close(descriptor_); }
}  // namespace optrush
