#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/descriptor.h"
#include "distributed/ranks.h"

namespace optrush {
/// This process's part in a round whose runs take turns (docs/guides/running.md): it holds the
/// turn from its start on, and hands it on between steps.
class Turns {
 public:
  /// `socket`: a path, where the conductor listens. An Error where nobody answers there.
  Turns(const std::string& socket, const Ranks&);
  /// With the conductor that OPTRUSH_TURNS names; null where it names none.
  static std::unique_ptr<Turns> from_environment(const Ranks&);

  struct Turn {
    int64_t steps = 0;   ///< 0: there is none, the run ends with the steps that it has made
    bool alone = false;  ///< nobody else has worked meanwhile
  };
  /// Hands the turn on and sleeps until the next one. `seconds`: of the last step. An Error where the
  /// conductor is gone.
  Turn next(double seconds);

 private:
  void send(const std::string& line) const;
  std::string receive();

  Descriptor socket_;
  int64_t rank_, ranks_;
  bool ready_ = false;  ///< has been said
  std::string arrived_;
};
}  // namespace optrush
