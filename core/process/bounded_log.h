#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace optrush {
/// The file for the output of a process. A file that has grown beyond its limit is cut to two parts, each a
/// quarter of the limit: its beginning and its end. A line between them states how much is left out.
class BoundedLog {
 public:
  /// A log that is not open.
  BoundedLog() = default;
  /// Starts empty. Throws an Error if the file cannot be written.
  BoundedLog(std::filesystem::path file, int64_t limit_bytes);

  /// The descriptor to which the process appends; -1: not open.
  int descriptor() const { return file_.get(); }
  /// Cuts the file if it is too long. Output that the process writes meanwhile may be lost.
  void bound();

 private:
  std::filesystem::path path_;
  int64_t limit_ = 0;
  int64_t first_ = 0;     ///< size of the first part; it stays the same after the first cut
  int64_t left_out_ = 0;  ///< bytes
  std::string marker_;    ///< the line that states left_out_; "": nothing is left out
  Descriptor file_;
};
}  // namespace optrush
