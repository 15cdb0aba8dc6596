#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/descriptor.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr size_t kMaxJsonDepth = 64;
constexpr size_t kMostBytes = size_t{1} << 30U;  // limit for read_file()

[[noreturn]] void fail(const std::string& action, const fs::path& path) {
  const int reason = errno;
  throw Error(reason == ENOENT ? ErrorCode::missing_file : ErrorCode::file_access,
              "cannot " + action + " '" + path.string() + "': " + std::strerror(reason));
}

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

void write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) fail("write", path);
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
}

bool is_device_or_pipe(const fs::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode));
}

void write_into(const fs::path& path, const std::function<void(const Sink&)>& make) {
  // O_NONBLOCK: do not wait for a reader
  const Descriptor out(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
  if (out.get() < 0 || ::fcntl(out.get(), F_SETFL, 0) != 0) fail("open", path);
  make([&](std::string_view piece) { write_all(out.get(), piece, path); });
}

/// An open regular file. Other kinds (pipe, device, folder) are refused, because opening or reading one may
/// block forever.
class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644)) {
    const bool reading = (flags & O_ACCMODE) == O_RDONLY;
    if (fd_.get() < 0) fail(reading ? "read" : "open", path);
    if (::fstat(fd_.get(), &status_) != 0) fail("inspect", path);
    if (!S_ISREG(status_.st_mode))
      throw Error(ErrorCode::file_access,
                  "cannot " + std::string(reading ? "read" : "write") + " '" + path.string() + "': it is " +
                      kind_of(status_.st_mode) + ", not a file",
                  "replace it by the file, or remove it");
  }
  std::string read() const {
    if (size() > kMostBytes) too_large();
    std::string bytes;
    bytes.resize(size() + 1);  // one byte more, so that the read that finds the end needs no second call
    size_t filled = 0;
    while (true) {
      const ssize_t n = ::read(fd_.get(), bytes.data() + filled, bytes.size() - filled);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("read", path_);
      if (n == 0) break;
      filled += static_cast<size_t>(n);
      if (filled > kMostBytes) too_large();
      if (filled == bytes.size()) bytes.resize(2 * filled);
    }
    bytes.resize(filled);
    return bytes;
  }
  size_t size() const { return static_cast<size_t>(status_.st_size); }
  char last() const {
    char byte = 0;
    if (::pread(fd_.get(), &byte, 1, status_.st_size - 1) != 1) fail("read", path_);
    return byte;
  }
  void write(std::string_view bytes) const { write_all(fd_.get(), bytes, path_); }
  void sync() const {
    if (::fsync(fd_.get()) != 0 && errno != EINVAL) fail("flush", path_);
  }

 private:
  [[noreturn]] void too_large() const {
    throw Error(ErrorCode::file_access,
                "'" + path_.string() + "' has more than 1 GiB, the limit for a file of this kind",
                "replace it by the file, or remove it");
  }

  fs::path path_;
  Descriptor fd_;
  struct stat status_ = {};
};

/// A temporary file beside `path` that is renamed to it, or removed after a failure. Its name contains the
/// process id, so several processes may write the same file.
class Replacement {
 public:
  explicit Replacement(const fs::path& path)
      : path_(path), temporary_(path.string() + "." + std::to_string(::getpid()) + ".tmp") {}
  ~Replacement() {
    if (!done_) ::unlink(temporary_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  const fs::path& temporary() const { return temporary_; }
  void put_in_place() {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("write", path_);
    done_ = true;
  }

 private:
  fs::path path_, temporary_;
  bool done_ = false;
};
}  // namespace

bool is_there(const fs::path& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

void sync_folder(const fs::path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems refuse to flush a folder: EINVAL.
  if (opened.get() < 0 || (::fsync(opened.get()) != 0 && errno != EINVAL)) fail("flush", folder);
}

std::string read_file(const fs::path& path) { return OpenFile(path, O_RDONLY).read(); }

std::string rest_of(std::istream& in) {
  std::string text;
  std::array<char, 4096> piece{};
  do {
    in.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<size_t>(in.gcount()));
  } while (in);
  return text;
}

void write_file(const fs::path& path, std::string_view content) { write_file(path, std::vector{content}); }

void write_file(const fs::path& path, const std::vector<std::string_view>& pieces) {
  write_pieces(path, [&](const Sink& sink) {
    for (const auto piece : pieces) sink(piece);
  });
}

void write_pieces(const fs::path& path, const std::function<void(const Sink&)>& make) {
  if (is_device_or_pipe(path)) {  // for example --json /dev/stdout: a rename would replace the device
    write_into(path, make);
    return;
  }
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  Replacement replacement(path);
  {
    const OpenFile out(replacement.temporary(), O_WRONLY | O_CREAT | O_TRUNC);
    make([&](std::string_view piece) { out.write(piece); });
    out.sync();
  }
  replacement.put_in_place();
}

void remove_unfinished(const fs::path& folder, const std::vector<std::string>& names) {
  if (!fs::is_directory(folder)) return;
  const auto is_ours = [&](const std::string& file) {  // NAME.PID.tmp
    return std::ranges::any_of(names, [&](const std::string& name) {
      if (!file.starts_with(name + ".") || !file.ends_with(".tmp")) return false;
      const auto number = std::string_view(file).substr(name.size() + 1);
      return number.find_first_not_of("0123456789") == number.size() - 4;
    });
  };
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && is_ours(entry.path().filename())) left.push_back(entry.path());
  for (const auto& path : left) fs::remove(path);
}

void append_line(const fs::path& path, std::string_view line) {
  const OpenFile out(path, O_WRONLY | O_CREAT | O_APPEND);
  out.write(std::string(line) + "\n");
}

void close_torn_line(const fs::path& path) {
  if (!is_there(path)) return;
  const OpenFile in(path, O_RDONLY);
  if (in.size() > 0 && in.last() != '\n') append_line(path, "");
}

namespace {
/// Builds a document from parser events. Each key is looked up once.
class JsonBuilder {
 public:
  JsonBuilder(const std::string& origin, const ItemReader& items) : origin_(origin), items_(items) {}
  Json take() { return std::move(document_); }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) {
    constexpr size_t kMembers = 8;
    Json object = Json::object();
    object.get_ref<Json::object_t&>().reserve(kMembers);
    return open(std::move(object));
  }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    auto& object = open_.back()->get_ref<Json::object_t&>();
    make_room(object);
    const auto [member, is_new] = object.emplace(name, nullptr);
    if (!is_new) throw Error(ErrorCode::invalid_file, "duplicate JSON key '" + name + "'", {}, origin_);
    place_ = &member->second;
    if (open_.size() == 1) in_items_ = items_.take && name == items_.list;
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception& e) {
    const std::string text = e.what();  // "[json.exception.parse_error.101] parse error at line 3, ..."
    const size_t tag = text.find("] ");
    throw Error(ErrorCode::invalid_file,
                "not valid JSON: " + (tag == std::string::npos ? text : text.substr(tag + 2)), {}, origin_);
  }

 private:
  /// Doubles the room of a full object. The object would copy the values of its members, because their names
  /// are constants.
  static void make_room(Json::object_t& object) {
    if (object.size() < object.capacity()) return;
    Json::object_t larger;
    larger.reserve(2 * object.size());
    for (auto& [name, value] : object) larger.Container::emplace_back(name, std::move(value));
    object.swap(larger);
  }

  Json& next() {
    if (open_.empty()) return document_;
    if (open_.back()->is_object()) return *place_;
    return open_.back()->emplace_back();
  }

  bool put(Json value) {
    next() = std::move(value);
    return true;
  }
  bool open(Json container) {
    if (open_.size() >= kMaxJsonDepth)
      throw Error(ErrorCode::invalid_file, "JSON nested deeper than 64 levels", {}, origin_);
    Json& place = next();
    place = std::move(container);
    open_.push_back(&place);
    return true;
  }
  bool close() {
    open_.pop_back();
    if (in_items_ && open_.size() == 2 && open_.back()->is_array()) {
      auto& list = open_.back()->get_ref<Json::array_t&>();
      items_.take(std::move(list.back()));
      list.pop_back();
    }
    return true;
  }

  const std::string& origin_;
  const ItemReader& items_;
  bool in_items_ = false;  ///< in the member of items_
  Json document_;
  /// open objects and lists, outermost first; their members stay in place until they are closed
  std::vector<Json*> open_;
  Json* place_ = nullptr;  ///< destination of the value that follows a key
};
}  // namespace

Json parse_json(std::string_view text, const std::string& origin, const ItemReader& items) {
  JsonBuilder builder(origin, items);
  Json::sax_parse(text, &builder);
  return builder.take();
}

Json parse_stored(std::string_view text, const std::string& origin) {
  try {
    return parse_json(text, origin);
  } catch (const Error& e) {
    throw Error(ErrorCode::invalid_file, e.message(), "restore the file, or correct the edit", origin);
  }
}

std::vector<Json> read_json_lines(const fs::path& path) {
  std::vector<Json> entries;
  if (!is_there(path)) return entries;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);)
    if (Json entry = Json::parse(line, nullptr, false); entry.is_object())
      entries.push_back(std::move(entry));
  return entries;
}

Json read_json(const fs::path& path) { return parse_stored(read_file(path), path.string()); }

std::string json_text(const Json& json) {
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

void write_json(const fs::path& path, const Json& json) { write_file(path, json_text(json)); }
}  // namespace optrush
