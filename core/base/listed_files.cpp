#include "base/listed_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>

#include "optrush/error.h"

namespace optrush {
namespace {
struct Close {
  void operator()(DIR* folder) const { closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, Close>;

std::filesystem::file_time_type time_of(const timespec& time) {
  using std::chrono::nanoseconds, std::chrono::seconds;
  const std::chrono::sys_time<nanoseconds> since(seconds(time.tv_sec) + nanoseconds(time.tv_nsec));
  return std::chrono::file_clock::from_sys(since);
}

class Listing {
 public:
  explicit Listing(Unreadable unreadable) : unreadable_(unreadable) {}

  /// `name` is relative to the folder `parent`; `path` is the path in the result.
  void add(int parent, const char* name, const std::string& path, unsigned char type = DT_UNKNOWN) {
    struct stat status {};
    if (type == DT_UNKNOWN && parent != AT_FDCWD) {
      if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
      type = IFTODT(status.st_mode);
    }
    if (type == DT_DIR) return add_folder(parent, name, path);
    if (type != DT_REG && type != DT_LNK && type != DT_UNKNOWN) return;
    if (fstatat(parent, name, &status, 0) != 0) return;  // a broken link
    if (S_ISREG(status.st_mode)) files_.push_back({path, status.st_size, time_of(status.st_mtim)});
    // A link to a folder is followed only if it is the listed path.
    if (S_ISDIR(status.st_mode) && parent == AT_FDCWD) add_folder(parent, name, path);
  }
  std::vector<ListedFile> take() { return std::move(files_); }

 private:
  void add_folder(int parent, const char* name, const std::string& path) {
    const int opened = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const OpenFolder folder(opened < 0 ? nullptr : fdopendir(opened));
    if (!folder) {
      const int reason = errno;
      if (opened >= 0) close(opened);
      if (unreadable_ == Unreadable::skipped) return;
      throw Error(ErrorCode::file_access, "cannot read the folder '" + path + "': " + std::strerror(reason));
    }
    const std::string prefix = path.ends_with('/') ? path : path + "/";
    while (const dirent* entry = readdir(folder.get()))
      if (const std::string_view name_of = entry->d_name; name_of != "." && name_of != "..")
        add(dirfd(folder.get()), entry->d_name, prefix + entry->d_name, entry->d_type);
  }

  Unreadable unreadable_;
  std::vector<ListedFile> files_;
};
}  // namespace

std::vector<ListedFile> listed_files(const std::filesystem::path& path, Unreadable unreadable) {
  Listing listing(unreadable);
  listing.add(AT_FDCWD, path.c_str(), path.string());
  return listing.take();
}
}  // namespace optrush
