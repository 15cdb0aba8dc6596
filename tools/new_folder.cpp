#include "new_folder.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr const char* kUnfinished = ".optrush-unfinished";

/// Without a final separator, so that it has a name.
fs::path named(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}
}  // namespace

NewFolder::NewFolder(const fs::path& target) : target_(named(target)), is_there_(fs::exists(target_)) {
  // An existing folder may be the root of a file system, which no other folder can replace.
  unfinished_ = is_there_ ? target_ / kUnfinished
                          : target_.parent_path() / ("." + target_.filename().string() + kUnfinished);
  const auto is_of_others = [&](const fs::directory_entry& entry) { return entry.path() != unfinished_; };
  if (is_there_ &&
      (!fs::is_directory(target_) || std::ranges::any_of(fs::directory_iterator(target_), is_of_others)))
    throw Error(ErrorCode::conflict, "'" + target.string() + "' already exists",
                "give the name of a new folder");
  fs::remove_all(unfinished_);
  fs::create_directories(unfinished_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  fs::remove_all(unfinished_, ignored);
}

void NewFolder::put_in_place() {
  if (!is_there_) return fs::rename(unfinished_, target_);
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(unfinished_)) names.push_back(entry.path().filename());
  for (const auto& name : names) fs::rename(unfinished_ / name, target_ / name);
}
}  // namespace optrush
