#include "launch/interleaving/interleaving_socket.h"

#include <algorithm>

#include "machine/socket.h"
#include "optrush/error.h"
#include "spec/read_fields.h"

namespace optrush {
namespace {
constexpr size_t kMostBytesOfALine = 4096;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::internal, why); }
}  // namespace

InterleavingSocket::InterleavingSocket(const std::filesystem::path& path) : listener_(listen_at(path)) {}

void InterleavingSocket::poll() {
  for (Descriptor next = accept_from(listener_); next.get() >= 0; next = accept_from(listener_))
    connections_.push_back({.channel = Channel(std::move(next), kMostBytesOfALine)});
  for (auto& connection : connections_)
    while (connection.channel.is_open()) {
      std::optional<Json> message;
      try {
        message = connection.channel.receive();
        if (!message) break;
        handle(connection, *message);
      } catch (const Error& e) {
        throw Error(ErrorCode::internal, "it violates the protocol of interleaved runs: " + e.message(),
                    (message ? "its message: " + message->dump() + "\n" : "") +
                        "docs/reference/protocol.md has the messages");
      }
    }
}

void InterleavingSocket::handle(Connection& connection, const Json& message) {
  const auto type = required<std::string>(message, "type");
  if (type == "ready" && connection.rank < 0) {
    const auto rank = required<int64_t>(message, "rank"), size = required<int64_t>(message, "ranks");
    if (rank < 0 || rank >= size) refuse("the rank does not exist");
    if (spoke() && size != size_) refuse("another rank reported a world size of " + std::to_string(size_));
    if (std::ranges::count(connections_, rank, &Connection::rank) != 0)
      refuse("the rank is already connected");
    connection.rank = rank;
    connection.can_end = optional_field<bool>(message, "ends").value_or(false);
    size_ = size;
  } else if (type != "done" || connection.rank < 0) {
    refuse(R"("ready" must come first and once, then "done")");
  }
  if (connection.waits) refuse("it answered without having been asked for a step");
  connection.seconds = required<double>(message, "seconds");
  connection.waits = true;
}

bool InterleavingSocket::waits() const {
  return spoke() && std::ranges::count(connections_, true, &Connection::waits) == size_;
}

void InterleavingSocket::send(const Json& message) {
  for (auto& connection : connections_) {
    if (connection.rank < 0) continue;
    connection.waits = false;
    connection.channel.send(message);
  }
}

void InterleavingSocket::go(int64_t steps, bool alone) {
  Json message = {{"type", "go"}, {"steps", steps}};
  if (alone) message["alone"] = true;
  send(message);
}

bool InterleavingSocket::can_end() const {
  return spoke() && std::ranges::count(connections_, true, &Connection::can_end) == size_;
}

void InterleavingSocket::end() { send({{"type", "end"}}); }

double InterleavingSocket::step_seconds() const {
  double longest = 0;
  for (const auto& connection : connections_) longest = std::max(longest, connection.seconds);
  return longest;
}

std::vector<int> InterleavingSocket::descriptors() const {
  std::vector<int> all{listener_.get()};
  for (const auto& connection : connections_) all.push_back(connection.channel.descriptor());
  return all;
}
}  // namespace optrush
