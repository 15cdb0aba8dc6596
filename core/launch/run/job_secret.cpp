#include "launch/run/job_secret.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/descriptor.h"
#include "machine/environment.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr const char* kVariable = "OPTRUSH_JOB_SECRET";
constexpr size_t kLeast = 16;   // bytes of a given secret
constexpr size_t kStored = 64;  // characters of a stored one: 32 random bytes in hexadecimal
constexpr const char* kExport =
    "export OPTRUSH_JOB_SECRET=$(openssl rand -hex 32) before the launcher is started, and let it pass the "
    "variable to every process (mpirun: -x OPTRUSH_JOB_SECRET)";

std::string random_text() { return hexadecimal(random_bytes(kStored / 2)); }

/// The file of the secret; "" without a home folder.
fs::path secret_file() {
  fs::path folder = environment_variable("XDG_STATE_HOME");
  const std::string home = environment_variable("HOME");
  if (!folder.is_absolute()) folder = home.empty() ? fs::path() : fs::path(home) / ".local/state";
  return folder.empty() ? fs::path() : folder / "optimization-rush" / "job_secret";
}

/// The content of the file; none if there is no file.
std::optional<std::string> stored(const fs::path& file) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::file_access, "the secret of your jobs, '" + file.string() + "', " + what,
                "remove the file while no job runs: the next job makes a new one");
  };
  // A pipe must not block.
  const Descriptor in(open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (in.get() < 0 && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  struct stat status {};
  if (in.get() < 0 || fstat(in.get(), &status) != 0)
    fail(std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("is not a file");
  if (status.st_uid != geteuid()) fail("belongs to another user");
  if ((status.st_mode & 077U) != 0) fail("may be read or written by other users");
  std::string text(kStored + 1, '\0');
  const ssize_t size = read(in.get(), text.data(), text.size());
  text.resize(size < 0 ? 0 : static_cast<size_t>(size));
  if (text.size() != kStored || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    fail("is damaged");
  return text;
}

/// Makes the file, unless another process makes it first: a reader sees all of it or nothing. Returns why it
/// cannot be made; "": it is there.
std::string make(const fs::path& file) {
  std::error_code problem;
  fs::create_directories(file.parent_path(), problem);
  if (problem) return "'" + file.parent_path().string() + "' cannot be made: " + problem.message();
  const std::string secret = random_text(), temporary = file.string() + "." + random_text() + ".tmp";
  const auto failed = [&] { return "'" + file.string() + "' cannot be made: " + std::strerror(errno); };
  const Descriptor out(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (out.get() < 0) return failed();
  const bool whole = write(out.get(), secret.data(), secret.size()) == static_cast<ssize_t>(kStored) &&
                     fsync(out.get()) == 0;
  const bool made = whole && (link(temporary.c_str(), file.c_str()) == 0 || errno == EEXIST);
  std::string why = made ? "" : failed();
  unlink(temporary.c_str());
  return why;
}
}  // namespace

std::string random_bytes(size_t size) {
  std::string bytes(size, '\0');
  randombytes_buf(bytes.data(), size);
  return bytes;
}

std::string hexadecimal(std::string_view bytes) {
  std::string text(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                 bytes.size());
  text.pop_back();
  return text;
}

std::string take_given_secret() {
  std::string given = environment_variable(kVariable);
  unsetenv(kVariable);
  return given;
}

JobSecret job_secret(const std::string& given, bool one_machine) {
  if (!given.empty() && given.size() < kLeast)
    throw Error(ErrorCode::invalid_value,
                std::string(kVariable) + " has " + std::to_string(given.size()) +
                    " bytes, but a secret needs " + std::to_string(kLeast) + " or more",
                kExport, "environment");
  if (!given.empty()) return {given};
  const fs::path file = secret_file();
  std::string why = file.empty() ? "HOME is not set" : "";
  if (!file.empty()) {
    if (auto secret = stored(file)) return {std::move(*secret)};
    why = make(file);
    if (auto secret = stored(file)) return {std::move(*secret)};
  }
  if (one_machine) return {};
  throw Error(ErrorCode::missing_requirement, "the processes of this job have no secret in common: " + why,
              kExport);
}
}  // namespace optrush
