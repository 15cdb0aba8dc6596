#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/descriptor.h"
#include "distributed/ranks.h"

namespace optrush {
/// This process's side of an interleaved round (docs/guides/running.md). It starts with the turn.
class Interleaving {
 public:
  /// `socket`: path of the controller's socket. Throws an Error if no controller answers.
  Interleaving(const std::string& socket, const Ranks&);
  /// Connects to the socket named by OPTRUSH_TURNS; null if the variable is not set.
  static std::unique_ptr<Interleaving> from_environment(const Ranks&);

  struct Turn {
    int64_t steps = 0;   ///< number of steps of the turn; 0: the run ends with the steps that it has made
    bool alone = false;  ///< no other run has run since the last turn
  };
  /// Passes the turn on and sleeps until the next one. `seconds`: time of the last step. Throws an Error if
  /// the controller is gone.
  Turn next(double seconds);

 private:
  void send(const std::string& line) const;
  std::string receive();

  Descriptor socket_;
  int64_t rank_, ranks_;
  bool ready_ = false;  ///< "ready" was sent
  std::string arrived_;
};

/// Decides which steps a run makes and times when it may be interleaved.
class InterleavedSteps {
 public:
  /// `turns`: null if the run is not interleaved.
  explicit InterleavedSteps(Interleaving* turns) : interleaving_(turns) {}

  /// Whether to make another step. At the end of a turn it passes the turn on; before that it calls
  /// `seconds_of_the_last`, which waits until the device has finished.
  bool next(const std::function<double()>& seconds_of_the_last);
  /// Whether the present step is timed. The first of several steps of a turn is not, because it fills the
  /// caches that other runs have emptied. A turn of one step is timed: it is too long for caches to matter.
  bool timed() const { return timed_; }
  /// No other run is interleaved with this run at present.
  bool alone() const { return interleaving_ == nullptr || alone_; }

 private:
  Interleaving* interleaving_;
  int64_t left_ = 0;  ///< steps left in the present turn
  bool timed_ = false, alone_ = false;
};
}  // namespace optrush
