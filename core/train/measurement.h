#pragma once
#include "distributed/groups.h"
#include "measure/energy.h"
#include "measure/memory.h"
#include "results/rank_result.h"
#include "train/counters.h"
#include "train/session.h"

namespace optrush {
/// Measurements over the timed steps together, without the time between them: peak memory, energy, traffic,
/// counters of plugins.
class Measurement {
 public:
  explicit Measurement(Session&);

  /// Timed steps begin, or go on. Errors name the plugin of a counter; so do those of stop().
  void start();
  /// They are over, or something else comes between them. The device has done them.
  void stop();
  bool is_on() const { return on_; }

  /// Of all timed steps, or none: of some of them alone it would be divided by the tokens of all.
  std::optional<double> joules() const { return joules_; }
  /// The measurements of an interrupted run, for the run that continues it.
  void take_up_joules(std::optional<double> before) { joules_ = before; }

  const MemoryPeak& peak() const { return peak_; }
  /// Bytes that the process holds on the device.
  std::optional<int64_t> process_bytes() const;
  /// Each collective of each group, per step, beside what theory says.
  std::vector<Collective> collectives(int64_t steps) const;
  /// Empty where no plugin counts.
  std::vector<CounterResult> counters(int64_t steps) const { return counters_.results(steps); }

 private:
  Session& session_;
  bool on_ = false;
  DeviceMeter meter_;
  std::optional<double> joules_ = 0;
  MemoryPeak peak_;
  Counters counters_;
  TrafficTable at_start_, sent_;
};
}  // namespace optrush
