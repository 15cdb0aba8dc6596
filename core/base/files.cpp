#include "base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <vector>

#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr size_t kMaxJsonDepth = 64;

[[noreturn]] void fail(const std::string& action, const fs::path& path) {
  throw Error("cannot " + action + " '" + path.string() + "': " + std::strerror(errno));
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("open", path);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno != EINTR) fail("write", path_);
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  void sync() const {
    if (::fsync(fd_) != 0 && errno != EINVAL) fail("flush", path_);
  }

 private:
  fs::path path_;
  int fd_;
};
}  // namespace

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || fs::is_directory(path))
    throw Error("cannot read '" + path.string() + "'", "check that the file exists");
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const fs::path& path, std::string_view content) { write_file(path, std::vector{content}); }

void write_file(const fs::path& path, const std::vector<std::string_view>& pieces) {
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  const fs::path temporary = path.string() + ".tmp";
  {
    const Descriptor out(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    for (const auto piece : pieces) out.write(piece);
    out.sync();
  }
  fs::rename(temporary, path);
}

void append_line(const fs::path& path, std::string_view line) {
  const Descriptor out(path, O_WRONLY | O_CREAT | O_APPEND);
  out.write(std::string(line) + "\n");
}

void close_torn_line(const fs::path& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in || in.tellg() <= 0) return;
  in.seekg(-1, std::ios::end);
  if (in.get() != '\n') append_line(path, "");
}

Json parse_json(std::string_view text, const std::string& origin) {
  std::vector<std::set<std::string>> keys;
  std::string problem;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (static_cast<size_t>(depth) > kMaxJsonDepth)
      throw Error("JSON nested deeper than 64 levels", {}, origin);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw Error("duplicate JSON key '" + parsed.get<std::string>() + "'", {}, origin);
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& e) {
    throw Error(std::string("not valid JSON: ") + e.what(), {}, origin);
  }
}

Json read_json(const fs::path& path) { return parse_json(read_file(path), path.string()); }

void write_json(const fs::path& path, const Json& json) {
  write_file(path, json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n");
}
}  // namespace optrush
