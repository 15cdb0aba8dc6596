#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "optrush/error.h"
#include "optrush/json.h"

namespace optrush {
/// What every process of a job knows and no other user does. It is in no log, spec, result or command line.
struct JobSecret {
  std::string bytes;  ///< "": there is none, so anyone who reaches a port may join
};

/// The value of OPTRUSH_JOB_SECRET, "" if it is not set. Removes the variable, so that no process that is
/// started later inherits it.
std::string take_given_secret();

/// The secret of this user's jobs: `given`, otherwise the content of a file in the home folder, which the
/// first job makes. Without both, a job of one machine has an empty secret; one of several machines gets an
/// Error. Throws an Error if the secret is short, or if another user may know the file's content.
JobSecret job_secret(const std::string& given, bool one_machine);

/// The other end of a connection does not know the job's secret.
class WrongSecret : public Error {
 public:
  WrongSecret();
};

/// One end of a connection between rank 0 and another process of its job. Each end sends a greeting with a
/// fresh random number. The other process, then rank 0, proves that it knows the secret by a MAC of both
/// greetings and its role, which fits no other connection. After that every line has a MAC of its place and
/// content under a key of this connection.
class Handshake {
 public:
  enum class End : uint8_t { rank_0, other };
  Handshake(End own, JobSecret);

  /// What to send first.
  const std::string& greeting() const { return greeting_; }
  /// Takes the other end's part from the beginning of `arrived` and appends the answer to `pending`. Throws
  /// an Error if the other end speaks something else, or a WrongSecret; `pending` then tells the other end.
  void advance(std::string& arrived, std::string& pending);
  /// Whether both ends have proved that they know the secret.
  bool done() const { return stage_ == Stage::done; }

  /// The next line to the other end, with its MAC.
  std::string sealed(std::string_view line);
  /// The content of the next line from the other end. Throws an Error if that end did not send it as this
  /// line.
  std::string opened(std::string_view line);

 private:
  enum class Stage : uint8_t { greeting, proof, done };
  struct Direction {
    std::string key;
    uint64_t lines = 0;  ///< sent so far
    /// The MAC of the next line, in hexadecimal.
    std::string next_mac(std::string_view line);
  };

  End own_;
  JobSecret secret_;
  std::string greeting_, own_proof_, expected_proof_;
  Direction there_, here_;
  Stage stage_ = Stage::greeting;
};

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
