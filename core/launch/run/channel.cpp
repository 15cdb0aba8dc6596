#include "launch/run/channel.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "base/files.h"
#include "machine/environment.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr const char* kSecretVariable = "OPTRUSH_JOB_SECRET";
constexpr size_t kLeast = 16;   // bytes of a given secret
constexpr size_t kStored = 64;  // characters of a stored one: 32 random bytes in hexadecimal
constexpr const char* kExport =
    "export OPTRUSH_JOB_SECRET=$(openssl rand -hex 32) before the launcher is started, and let it pass the "
    "variable to every process (mpirun: -x OPTRUSH_JOB_SECRET)";

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// Random bytes from the kernel, as for keys.
std::string random_bytes(size_t size) {
  std::string random(size, '\0');
  randombytes_buf(random.data(), size);
  return random;
}

std::string hexadecimal(std::string_view content) {
  std::string text(2 * content.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes(content), content.size());
  text.pop_back();
  return text;
}

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

constexpr std::string_view kProtocol = "optrush1";
constexpr size_t kNonce = 32, kMac = crypto_auth_hmacsha256_BYTES, kMacText = 2 * kMac;

/// HMAC-SHA256 of the parts, one after the other.
std::string mac(std::string_view key, std::initializer_list<std::string_view> parts) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes(key), key.size());
  for (const auto part : parts) crypto_auth_hmacsha256_update(&state, bytes(part), part.size());
  std::array<unsigned char, kMac> result{};
  crypto_auth_hmacsha256_final(&state, result.data());
  return {result.begin(), result.end()};
}

/// Compares in a time that does not depend on the content.
bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string cut_from(std::string& text, size_t size) {
  std::string first = text.substr(0, size);
  text.erase(0, size);
  return first;
}

constexpr size_t kMostBeforeProof = 256;  // more than both parts of a handshake

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }
}  // namespace

std::string take_given_secret() {
  std::string given = environment_variable(kSecretVariable);
  unsetenv(kSecretVariable);
  return given;
}

JobSecret job_secret(const std::string& given, bool one_machine) {
  if (!given.empty() && given.size() < kLeast)
    throw Error(ErrorCode::invalid_value,
                std::string(kSecretVariable) + " has " + std::to_string(given.size()) +
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

WrongSecret::WrongSecret()
    : Error(ErrorCode::network, "it has another secret than this process",
            "all processes of a job need one secret: give them one home folder, or set OPTRUSH_JOB_SECRET to "
            "the same text in all of them") {}

Handshake::Handshake(End own, JobSecret secret)
    : own_(own), secret_(std::move(secret)), greeting_(std::string(kProtocol) + random_bytes(kNonce)) {}

void Handshake::advance(std::string& arrived, std::string& pending) {
  if (stage_ == Stage::greeting) {
    const size_t begun = std::min(arrived.size(), kProtocol.size());
    if (arrived.compare(0, begun, kProtocol, 0, begun) != 0)
      throw Error(ErrorCode::network, "it does not speak the protocol of this version of optrush");
    if (arrived.size() < greeting_.size()) return;
    const std::string other = cut_from(arrived, greeting_.size());
    const bool is_rank_0 = own_ == End::rank_0;
    const std::string &first = is_rank_0 ? greeting_ : other, &second = is_rank_0 ? other : greeting_;
    const auto keyed = [&](std::string_view what) { return mac(secret_.bytes, {what, first, second}); };
    const std::string proof_of_0 = keyed("proof of rank 0"), proof_of_other = keyed("proof of another rank");
    const std::string lines_of_0 = keyed("lines of rank 0"), lines_of_other = keyed("lines of another rank");
    own_proof_ = is_rank_0 ? proof_of_0 : proof_of_other;
    expected_proof_ = is_rank_0 ? proof_of_other : proof_of_0;
    there_.key = is_rank_0 ? lines_of_0 : lines_of_other;
    here_.key = is_rank_0 ? lines_of_other : lines_of_0;
    stage_ = Stage::proof;
    // Rank 0 gives no proof to an unauthenticated peer, which could try secrets on it.
    if (!is_rank_0) pending += own_proof_;
  }
  if (stage_ == Stage::done || arrived.size() < kMac) return;
  const bool fits = same(cut_from(arrived, kMac), expected_proof_);
  if (own_ == End::rank_0) pending += fits ? own_proof_ : std::string(kMac, '\0');
  if (!fits) throw WrongSecret();
  stage_ = Stage::done;
}

std::string Handshake::Direction::next_mac(std::string_view line) {
  const std::string place = std::to_string(lines++) + " ";
  return hexadecimal(mac(key, {place, line}));
}

std::string Handshake::sealed(std::string_view line) {
  std::string sealed = there_.next_mac(line) + " ";
  return sealed.append(line);
}

std::string Handshake::opened(std::string_view line) {
  if (line.size() <= kMacText || !same(line.substr(0, kMacText), here_.next_mac(line.substr(kMacText + 1))))
    throw Error(ErrorCode::network, "received a line that the other process did not send");
  return std::string(line.substr(kMacText + 1));
}

void Channel::send(const Json& message) {
  lines_.push_back(message.dump(-1, ' ', true, Json::error_handler_t::replace));
  write_pending();
}

std::optional<Json> Channel::receive() {
  write_pending();
  try {
    if (!is_trusted()) {
      read_arrived(kMostBeforeProof);
      handshake_->advance(arrived_, pending_);
      write_pending();
    }
    size_t end = is_trusted() ? arrived_.find('\n') : std::string::npos;
    if (is_trusted() && end == std::string::npos) {
      read_arrived(most_bytes_);
      end = arrived_.find('\n');
    }
    if (std::min(end, arrived_.size()) > most_bytes_)
      throw Error(ErrorCode::network,
                  "received a line of more than " + std::to_string(most_bytes_) + " bytes");
    if (end == std::string::npos) {
      if (ended_) close();
      return std::nullopt;
    }
    std::string line = arrived_.substr(0, end);
    arrived_.erase(0, end + 1);
    if (handshake_) line = handshake_->opened(line);
    Json message = parse_json(line, "a message");
    if (!message.is_object()) throw Error(ErrorCode::network, "received text that is not a JSON object");
    return message;
  } catch (const Error&) {
    write_pending();
    close();
    throw;
  }
}

void Channel::write_pending() {
  if (is_trusted())
    for (const auto& line : std::exchange(lines_, {}))
      pending_ += (handshake_ ? handshake_->sealed(line) : line) + "\n";
  while (is_open() && !pending_.empty()) {
    const ssize_t n = ::send(socket_.get(), pending_.data(), pending_.size(), MSG_NOSIGNAL);
    if (n < 0) {
      if (would_block()) return;
      ended_ = true;  // data that was sent before can still be read
      pending_.clear();
      return;
    }
    pending_.erase(0, static_cast<size_t>(n));
  }
}

void Channel::read_arrived(size_t most_bytes) {
  std::array<char, 65536> buffer{};
  // A little more than the limit of a line, so that a longer line is noticed.
  while (is_open() && arrived_.size() <= most_bytes) {
    const ssize_t n = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n > 0) {
      arrived_.append(buffer.data(), static_cast<size_t>(n));
      silent_ = false;
      continue;
    }
    if (n == 0 || !would_block()) ended_ = true;
    return;
  }
}
}  // namespace optrush
