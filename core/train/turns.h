#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/descriptor.h"
#include "distributed/ranks.h"

namespace optrush {
/// This process's part in a round whose runs take turns (docs/experiments.md, "Runs in turns"): it holds the
/// turn from its start on, and hands it on between steps.
class Turns {
 public:
  /// `socket`: a path, where the conductor listens. An Error where nobody answers there.
  Turns(const std::string& socket, const Ranks&);
  /// With the conductor that OPTRUSH_TURNS names; null where it names none.
  static std::unique_ptr<Turns> from_environment(const Ranks&);

  /// Hands the turn on and sleeps until the next one. `seconds`: of the last step. How many steps the next
  /// turn is for. An Error where the conductor is gone.
  int64_t next(double seconds);

 private:
  void send(const std::string& line) const;
  std::string receive();

  Descriptor socket_;
  int64_t rank_, ranks_;
  bool ready_ = false;  ///< has been said
  std::string arrived_;
};
}  // namespace optrush
