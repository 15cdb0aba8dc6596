#include "base/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr const char* kPrefix = "optrush-tmp-";

Descriptor opened(const fs::path& folder) {
  return Descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}
bool locks(const Descriptor& folder) { return flock(folder.get(), LOCK_EX | LOCK_NB) == 0; }

bool is_own(const Descriptor& folder) {
  struct stat status {};
  return fstat(folder.get(), &status) == 0 && status.st_uid == geteuid();
}

void remove_all_of(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}
}  // namespace

TemporaryFolder::TemporaryFolder() {
  // Another process may remove the folder as abandoned before it is locked; then make a new one.
  while (true) {
    std::string name = fs::temp_directory_path() / (std::string(kPrefix) + "XXXXXX");
    if (mkdtemp(name.data()) == nullptr)
      throw Error(ErrorCode::file_access, "cannot create the folder '" + name + "': " + std::strerror(errno),
                  "set TMPDIR to a writable folder with free space");
    path_ = name;
    lock_ = opened(path_);
    // On file systems without locks, a folder never counts as abandoned.
    if ((locks(lock_) || errno != EWOULDBLOCK) && fs::exists(path_)) return;
  }
}

TemporaryFolder::~TemporaryFolder() {
  remove_all_of(path_);
  remove_abandoned_folders();
}

void remove_abandoned_folders() {
  std::error_code unreadable;
  const fs::path all = fs::temp_directory_path(unreadable);
  if (unreadable) return;
  for (fs::directory_iterator entry(all, unreadable), end; !unreadable && entry != end;
       entry.increment(unreadable)) {
    if (!entry->path().filename().string().starts_with(kPrefix)) continue;
    const Descriptor folder = opened(entry->path());
    if (folder.get() >= 0 && is_own(folder) && locks(folder)) remove_all_of(entry->path());
  }
}
}  // namespace optrush
