#include "launch/run/channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/files.h"
#include "optrush/error.h"

namespace optrush {
namespace {
constexpr size_t kMostBeforeProof = 256;  // more than both parts of a handshake

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }
}  // namespace

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
