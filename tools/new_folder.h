#pragma once
#include <filesystem>

namespace optrush {
/// A folder that appears under its name only when it is complete. Until then its files are in a hidden folder
/// beside it, or inside it if it exists and is empty. A killed process leaves only that folder, which the
/// next attempt removes.
class NewFolder {
 public:
  /// Throws an Error if `target` exists and is not an empty folder.
  explicit NewFolder(const std::filesystem::path& target);
  /// Removes the files unless they were put in place.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// The folder to write to.
  const std::filesystem::path& path() const { return unfinished_; }
  void put_in_place();

 private:
  std::filesystem::path target_, unfinished_;
  bool is_there_;
};
}  // namespace optrush
