#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "launch/run/job_secret.h"
#include "optrush/error.h"

namespace optrush {
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
}  // namespace optrush
