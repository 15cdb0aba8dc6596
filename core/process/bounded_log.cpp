#include "process/bounded_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "optrush/error.h"

namespace optrush {
namespace {
/// A part of a file, as far as it can be read.
std::string part_of(int file, int64_t from, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  const ssize_t got = pread(file, text.data(), text.size(), from);
  text.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return text;
}

std::string without_last_piece(const std::string& text) { return text.substr(0, text.rfind('\n') + 1); }
std::string without_first_piece(const std::string& text) {
  const size_t end = text.find('\n');
  return end == std::string::npos ? text : text.substr(end + 1);
}
}  // namespace

BoundedLog::BoundedLog(std::filesystem::path file, int64_t limit_bytes)
    : path_(std::move(file)),
      limit_(limit_bytes),
      file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644)) {
  if (file_.get() < 0)
    throw Error(ErrorCode::file_access, "cannot write '" + path_.string() + "': " + std::strerror(errno));
}

void BoundedLog::bound() {
  struct stat now {};
  if (file_.get() < 0 || fstat(file_.get(), &now) != 0 || now.st_size <= limit_) return;
  const Descriptor reading(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (reading.get() < 0) return;
  const int64_t part = limit_ / 4;
  if (marker_.empty())
    first_ = static_cast<int64_t>(without_last_piece(part_of(reading.get(), 0, part)).size());
  const std::string last = without_first_piece(part_of(reading.get(), now.st_size - part, part));
  left_out_ += now.st_size - first_ - static_cast<int64_t>(last.size() + marker_.size());
  marker_ = "[" + std::to_string(left_out_) + " bytes of this log are left out here]\n";
  std::string text = marker_ + last;
  // The output that was added in the meantime.
  for (int64_t read = now.st_size; fstat(file_.get(), &now) == 0 && now.st_size > read; read = now.st_size)
    text += part_of(reading.get(), read, std::min(part, now.st_size - read));
  // The first part stays in place, so a line that the process writes meanwhile comes after it.
  if (ftruncate(file_.get(), first_) != 0) return;
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file_.get(), text.data() + done, text.size() - done);
    if (written <= 0) return;  // a full disk: the end is lost
    done += static_cast<size_t>(written);
  }
}
}  // namespace optrush
