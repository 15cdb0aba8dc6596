#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "process/oom_kills.h"
#include "process/signals.h"

namespace optrush {
/// The maximum size of the log of a process in bytes.
inline constexpr int64_t kLogLimit = 16 << 20;

/// The file for the output of a process. A file that has grown beyond its limit is cut to two parts, each a
/// quarter of the limit: its beginning and its end. A line between them states how much is left out.
class BoundedLog {
 public:
  /// A log that is not open.
  BoundedLog() = default;
  /// Starts empty. Throws an Error if the file cannot be written.
  BoundedLog(std::filesystem::path file, int64_t limit_bytes);

  /// The descriptor to which the process appends; -1: not open.
  int descriptor() const { return file_.get(); }
  /// Cuts the file if it is too long. Output that the process writes meanwhile may be lost.
  void bound();

 private:
  std::filesystem::path path_;
  int64_t limit_ = 0;
  int64_t first_ = 0;     ///< size of the first part; it stays the same after the first cut
  int64_t left_out_ = 0;  ///< bytes
  std::string marker_;    ///< the line that states left_out_; "": nothing is left out
  Descriptor file_;
};

/// Names and values of variables. Each replaces this process's variable of the same name. If a name occurs
/// twice, the later value counts.
using Environment = std::vector<std::pair<std::string, std::string>>;

struct Command {
  std::vector<std::string> arguments;  ///< the first is the program: a path, or a name in PATH
  Environment environment;
  std::filesystem::path log;     ///< new file for stdout and stderr; "": inherited
  std::filesystem::path folder;  ///< its working directory; "": inherited
  int input = -1;                ///< descriptor of its standard input; -1: /dev/null
  bool helper = false;           ///< a process of this program that is neither a run nor an orphan of a run
};

/// The environment of a child as "NAME=value": the variables of this process, overridden by `added`.
std::vector<std::string> environment_with(const Environment& added);

struct ProcessEnd {
  enum class Kind : uint8_t { exited, signalled, timed_out, interrupted };
  Kind kind = Kind::exited;
  int code = 0;                            ///< exited
  int signal = 0;                          ///< signalled: not by this program
  std::optional<bool> out_of_memory = {};  ///< after SIGKILL: whether the out-of-memory killer sent it
  double seconds = 0;
  std::vector<std::string> orphans;  ///< processes that it left outside of its group; they were ended

  bool ok() const { return kind == Kind::exited && code == 0; }
};

/// Whether an outside cause ended a process, such as a launcher that ends a job: a signal that asks to stop,
/// also as exit code 128 + signal, or a SIGKILL that the out-of-memory killer did not send.
bool ended_from_outside(const ProcessEnd&);

/// A child in a new process group, without terminal input. It dies with the thread that started it, however
/// that thread ends. The destructor ends its whole group.
class Process {
 public:
  /// Throws an Error if the program can't be executed.
  explicit Process(const Command&);
  /// An existing child that appends to the log. `kills`: read before it was started.
  Process(pid_t, BoundedLog log, OomKills kills, bool helper = false);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  /// A helper becomes a run, with a new log.
  void become_run(const std::filesystem::path& log);
  /// Returns its end, once, and kills the remaining processes of the group.
  std::optional<ProcessEnd> poll();
  void signal_group(int number) const;
  /// Sends SIGTERM and, after `grace_s`, SIGKILL. Another signal to this process shortens this time. A child
  /// that SIGKILL does not end is named on the terminal and left. Returns how the child ended; none if its
  /// end was known before.
  std::optional<ProcessEnd> end(double grace_s, Interrupts&);

 private:
  void count() const;
  /// The child has ended, or is left. If no run is alive, ends and returns the processes that runs left.
  std::vector<std::string> forget(bool ended);

  pid_t pid_ = -1;
  bool helper_ = false;
  BoundedLog log_;
  OomKills kills_before_;
  static int alive_;                  // NOLINT: a fact of the process: without helpers
  static std::vector<pid_t> others_;  // NOLINT: as above: helpers, and children that SIGKILL did not end
};

struct Limits {
  double timeout_s = 3600;
  double grace_s = 5;  ///< between SIGTERM and SIGKILL
};

/// Whether a signal to stop has arrived. After an end by an outside cause, it waits for kOutside seconds for
/// the signal that explains it, because a launcher signals all processes. After another end it waits for
/// `otherwise_s`.
bool was_interrupt(const ProcessEnd&, Interrupts&, double otherwise_s = 0);
/// Seconds to wait for a signal after an end by an outside cause, and after a run that ended badly: a program
/// may handle a signal and end with an error, while its child processes end by the signal.
inline constexpr double kOutside = 2, kBadEnd = 0.5;  // seconds

/// Runs a command to its end, to the time limit or to the first signal that asks to stop.
ProcessEnd run_process(const Command&, const Limits&, Interrupts&);

/// The same for a process that was started at `start`.
ProcessEnd run_to_end(Process&, std::chrono::steady_clock::time_point start, const Limits&, Interrupts&);

/// "SIGSEGV (segmentation fault)".
std::string describe_signal(int number);
}  // namespace optrush
