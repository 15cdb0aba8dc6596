#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/descriptor.h"
#include "distributed/ranks.h"

namespace optrush {
/// This process's part in a round whose runs are interleaved (docs/guides/running.md): it holds the
/// turn from its start on, and hands it on between steps.
class Interleaving {
 public:
  /// `socket`: a path, where the controller listens. Throws an Error if no controller answers.
  Interleaving(const std::string& socket, const Ranks&);
  /// With the controller that OPTRUSH_TURNS names; null where it names none.
  static std::unique_ptr<Interleaving> from_environment(const Ranks&);

  struct Turn {
    int64_t steps = 0;   ///< 0: there is none, the run ends with the steps that it has made
    bool alone = false;  ///< no other run has worked in the meantime
  };
  /// Hands the turn on and sleeps until the next one. `seconds`: of the last step. An Error where the
  /// controller is gone.
  Turn next(double seconds);

 private:
  void send(const std::string& line) const;
  std::string receive();

  Descriptor socket_;
  int64_t rank_, ranks_;
  bool ready_ = false;  ///< has been said
  std::string arrived_;
};

/// The timed steps of a run that may be interleaved.
class InterleavedSteps {
 public:
  /// `turns`: null where the run takes none.
  explicit InterleavedSteps(Interleaving* turns) : interleaving_(turns) {}

  /// Whether another step is to be made. Where those of the present turn are done it hands the turn on, and
  /// asks for the seconds of the last step before: the device then has nothing of them left to do.
  bool next(const std::function<double()>& seconds_of_the_last);
  /// The first of several steps is not: it fills the caches that others have emptied. One that has its turn
  /// alone is too long to show that. Before next() no step is.
  bool timed() const { return timed_; }
  /// No other run is interleaved with this one.
  bool alone() const { return interleaving_ == nullptr || alone_; }

 private:
  Interleaving* interleaving_;
  int64_t left_ = 0;  ///< of the present turn
  bool timed_ = false, alone_ = false;
};
}  // namespace optrush
