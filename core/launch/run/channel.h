#pragma once
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "optrush/json.h"

namespace optrush {
/// JSON objects in both directions over a socket, one a line. Nothing here blocks.
class Channel {
 public:
  /// No longer line is taken from the other side.
  Channel(Descriptor socket, size_t most_bytes) : socket_(std::move(socket)), most_bytes_(most_bytes) {}

  void allow(size_t most_bytes) { most_bytes_ = most_bytes; }
  /// Sends what fits now; the rest goes with later calls of send() and receive().
  void send(const Json& message);
  /// The next message that is there whole. An Error where what came is none: then the channel is closed.
  std::optional<Json> receive();
  /// False once the other side has closed, or an error has come.
  bool is_open() const { return socket_.get() >= 0; }
  void close() { socket_.close(); }
  /// Can be read when something has come; -1: closed.
  int descriptor() const { return socket_.get(); }

 private:
  void write_pending();
  void read_arrived();

  Descriptor socket_;
  size_t most_bytes_;
  std::string arrived_, pending_;
  bool ended_ = false;  ///< the other side has
};
}  // namespace optrush
