#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace optrush {
/// The file that takes what a process prints. One that has grown beyond its limit keeps its first and its
/// last quarter of that, with a line between them that tells how much is left out.
class BoundedLog {
 public:
  /// Not open.
  BoundedLog() = default;
  /// Begins empty; an Error where it can't be written.
  BoundedLog(std::filesystem::path file, int64_t limit_bytes);

  /// For the process to append to; -1: not open.
  int descriptor() const { return file_.get(); }
  /// Cuts it where it is too long. What the process writes in this moment may be left out as well.
  void bound();

 private:
  std::filesystem::path path_;
  int64_t limit_ = 0;
  int64_t left_out_ = 0;
  std::string marker_;  ///< the line that tells so
  Descriptor file_;
};
}  // namespace optrush
