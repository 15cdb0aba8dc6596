#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "process/bounded_log.h"
#include "process/oom_kills.h"
#include "process/signals.h"

namespace optrush {
/// The bytes of a process's log that are kept.
inline constexpr int64_t kLogLimit = 16 << 20;

/// Variables and their values, over this process's own; of two values of one variable the later counts.
using Environment = std::vector<std::pair<std::string, std::string>>;

/// A program to start.
struct Command {
  std::vector<std::string>
      arguments;  ///< the first is the program: a path, or a name that is looked up in PATH
  Environment environment;
  std::filesystem::path log;  ///< takes stdout and stderr, which then start empty; "": those of this process
  std::filesystem::path folder;  ///< where it starts; "": this process's own
  int input = -1;                ///< descriptor of its standard input; -1: /dev/null
  bool helper = false;  ///< a process of this program beside the runs: neither a run nor an orphan of one
};

/// The environment of a child, as "NAME=value": this process's own with `added` over it.
std::vector<std::string> environment_with(const Environment& added);

struct ProcessEnd {
  enum class Kind : uint8_t { exited, signalled, timed_out, interrupted };
  Kind kind = Kind::exited;
  int code = 0;                            ///< exited
  int signal = 0;                          ///< signalled: by something else than us
  std::optional<bool> out_of_memory = {};  ///< by SIGKILL: whether that was the kernel's out-of-memory killer
  double seconds = 0;
  std::vector<std::string> orphans;  ///< what it had left running outside of its group, and was ended
};

/// Whether something outside of a process ended it, as a launcher does that ends a whole job: by a signal
/// that asks to stop, be it by the exit code 128 + signal, or by a SIGKILL that is not the out-of-memory
/// killer's.
bool ended_from_outside(const ProcessEnd&);

/// A child in a process group of its own, without terminal input. It dies with the thread that started it,
/// whatever ends that; its whole group ends with the object.
class Process {
 public:
  /// An Error where the program can't be executed.
  explicit Process(const Command&);
  /// A child that is there already and appends to the log. `kills`: of before it was started.
  Process(pid_t, BoundedLog log, OomKills kills);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  /// Its end, once; kills what is left of the group.
  std::optional<ProcessEnd> poll();
  void signal_group(int number) const;
  /// SIGTERM, some time to comply, SIGKILL. A further signal to us cuts the time short. How it then ended;
  /// none where its end was known before.
  std::optional<ProcessEnd> end(double grace_s, Interrupts&);

 private:
  /// Ends what the runs left, if none of them is alive.
  std::vector<std::string> end_orphans_of_runs(pid_t ended);

  pid_t pid_ = -1;
  bool helper_ = false;
  BoundedLog log_;
  OomKills kills_before_;
  static int alive_;                   // NOLINT: a fact of the process: without helpers
  static std::vector<pid_t> helpers_;  // NOLINT: as above
};

struct Limits {
  double timeout_s = 3600;
  double grace_s = 5;  ///< between SIGTERM and SIGKILL
};

/// After an end from outside: waits for a moment whether the signal that explains it comes to this process,
/// too, for a launcher sends it to all. After another end it waits for `otherwise_s`. Whether a signal to
/// stop has come, now or before.
bool was_interrupt(const ProcessEnd&, Interrupts&, double otherwise_s = 0);
/// How long an end from outside is waited with, and the bad end of a run: a program may have ended in its own
/// way by a signal, and what it had started by the signal itself.
inline constexpr double kOutside = 2, kBadEnd = 0.5;  // seconds

/// Runs a command to its end, to the time limit or to the first signal that asks to stop; `tick` is called
/// now and then in the meantime.
ProcessEnd run_process(const Command&, const Limits&, Interrupts&, const std::function<void()>& tick = {});

/// The same of a process that began at `start`.
ProcessEnd run_to_end(Process&, std::chrono::steady_clock::time_point start, const Limits&, Interrupts&,
                      const std::function<void()>& tick = {});

/// "SIGSEGV (segmentation fault)".
std::string describe_signal(int number);
}  // namespace optrush
