#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "launch/run/handshake.h"
#include "optrush/json.h"

namespace optrush {
/// Exchanges JSON objects over a socket, one per line. Nothing here blocks.
class Channel {
 public:
  /// `most_bytes`: limit for a line from the other side.
  Channel(Descriptor socket, size_t most_bytes) : socket_(std::move(socket)), most_bytes_(most_bytes) {}
  /// A channel whose other side must know a secret. Messages are sent and received only after the handshake.
  Channel(Descriptor socket, size_t most_bytes, Handshake handshake)
      : socket_(std::move(socket)),
        most_bytes_(most_bytes),
        pending_(handshake.greeting()),
        handshake_(std::move(handshake)) {}

  void allow(size_t most_bytes) { most_bytes_ = most_bytes; }
  /// Sends as much as possible now; the rest goes with later calls of send() and receive().
  void send(const Json& message);
  /// The next complete message. Throws an Error for an invalid one, or a WrongSecret, and closes the channel.
  std::optional<Json> receive();
  /// False after the other side has closed or an error has occurred.
  bool is_open() const { return socket_.get() >= 0; }
  void close() { socket_.close(); }
  /// Whether the other side has proved that it knows the secret, if it must.
  bool is_trusted() const { return !handshake_ || handshake_->done(); }
  /// Whether nothing has arrived so far.
  bool is_silent() const { return silent_; }
  /// A descriptor that is readable when data has arrived; -1: closed.
  int descriptor() const { return socket_.get(); }

 private:
  void write_pending();
  void read_arrived(size_t most_bytes);

  Descriptor socket_;
  size_t most_bytes_;
  std::string arrived_, pending_;
  std::vector<std::string> lines_ = {};  ///< to be sent after the handshake
  std::optional<Handshake> handshake_ = {};
  bool ended_ = false;  ///< the other side has closed
  bool silent_ = true;
};
}  // namespace optrush
