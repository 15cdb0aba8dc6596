#include "process/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/log.h"
#include "base/seconds_since.h"
#include "base/text.h"
#include "machine/child.h"
#include "optrush/error.h"
#include "process/orphans.h"

namespace optrush {
namespace {
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(ErrorCode::file_access, what + ": " + std::strerror(error));
}

/// Runs in the child between vfork and exec, in the memory of this process: async-signal-safe calls only.
[[noreturn]] void become(char* const* arguments, char* const* environment, pid_t parent, int input, int log,
                         const char* folder, int error_pipe) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);  // otherwise the program would ignore it, as this one does
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  dup2(input >= 0 ? input : open("/dev/null", O_RDONLY), STDIN_FILENO);
  if (log >= 0) {
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
  }
  if (*folder == '\0' || chdir(folder) == 0) execvpe(arguments[0], arguments, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof error);
  _exit(127);
}

/// A part of a file, as far as it can be read.
std::string part_of(int file, int64_t from, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, pread(file, text.data(), text.size(), from))));
  return text;
}

std::string without_last_piece(const std::string& text) { return text.substr(0, text.rfind('\n') + 1); }
std::string without_first_piece(const std::string& text) {
  const size_t end = text.find('\n');
  return end == std::string::npos ? text : text.substr(end + 1);
}
}  // namespace

BoundedLog::BoundedLog(std::filesystem::path file, int64_t limit_bytes)
    : path_(std::move(file)),
      limit_(limit_bytes),
      file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644)) {
  if (file_.get() < 0) fail("cannot write '" + path_.string() + "'", errno);
}

void BoundedLog::bound() {
  struct stat now {};
  if (file_.get() < 0 || fstat(file_.get(), &now) != 0 || now.st_size <= limit_) return;
  const Descriptor reading(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (reading.get() < 0) return;
  const int64_t part = limit_ / 4;
  if (marker_.empty())
    first_ = static_cast<int64_t>(without_last_piece(part_of(reading.get(), 0, part)).size());
  const std::string last = without_first_piece(part_of(reading.get(), now.st_size - part, part));
  left_out_ += now.st_size - first_ - static_cast<int64_t>(last.size() + marker_.size());
  marker_ = "[" + std::to_string(left_out_) + " bytes of this log are left out here]\n";
  std::string text = marker_ + last;
  // The output that was added in the meantime.
  for (int64_t read = now.st_size; fstat(file_.get(), &now) == 0 && now.st_size > read; read = now.st_size)
    text += part_of(reading.get(), read, std::min(part, now.st_size - read));
  // The first part stays in place, so a line that the process writes meanwhile comes after it.
  if (ftruncate(file_.get(), first_) != 0) return;
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file_.get(), text.data() + done, text.size() - done);
    if (written <= 0) return;  // a full disk: the end is lost
    done += static_cast<size_t>(written);
  }
}

std::vector<std::string> environment_with(const Environment& added) {
  const std::map<std::string_view, std::string_view> over(added.rbegin(), added.rend());
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!over.contains(text.substr(0, text.find('=')))) all.emplace_back(text);
  }
  for (const auto& [name, value] : over) all.push_back(std::string(name) + "=" + std::string(value));
  return all;
}

int Process::alive_ = 0;                   // NOLINT: a fact of the process
std::vector<pid_t> Process::others_ = {};  // NOLINT: as above

Process::Process(const Command& command) : helper_(command.helper) {
  kill_timeout_s();  // an invalid value is an error here, not in the destructor
  auto arguments = command.arguments;
  auto environment = environment_with(command.environment);
  const auto argument_pointers = pointers_to(arguments);
  const auto environment_pointers = pointers_to(environment);

  if (!command.log.empty()) log_ = BoundedLog(command.log, kLogLimit);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("cannot create a pipe", errno);
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);

  kills_before_ = OomKills::read();
  const pid_t parent = getpid();
  // A copy of the page tables, as fork() makes, takes the longer the more memory this process has.
  pid_ = vfork();
  if (pid_ < 0) fail("cannot start a process", errno);
  if (pid_ == 0)
    become(argument_pointers.data(), environment_pointers.data(), parent, command.input, log_.descriptor(),
           command.folder.c_str(), writing.get());
  setpgid(pid_, pid_);  // in parent and child, because either may come first
  writing.close();
  int error = 0;
  if (read(reading.get(), &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    fail("cannot start '" + command.arguments.front() + "'", error);
  }
  count();
  std::string words = join(command.arguments, " ");
  words.erase(words.find_last_not_of(' ') + 1);
  log::debug("started " + std::to_string(pid_) + ": " + words);
}

Process::Process(pid_t child, BoundedLog log, OomKills kills, bool helper)
    : pid_(child), helper_(helper), log_(std::move(log)), kills_before_(std::move(kills)) {
  setpgid(pid_, pid_);
  count();
}

void Process::count() const {
  if (helper_)
    others_.push_back(pid_);
  else
    ++alive_;
}

void Process::become_run(const std::filesystem::path& log) {
  log_ = BoundedLog(log, kLogLimit);
  kills_before_ = OomKills::read();
  std::erase(others_, pid_);
  helper_ = false;
  count();
}

Process::~Process() {
  if (pid_ < 0) return;
  signal_group(SIGKILL);
  forget(reap(pid_));
}

std::vector<std::string> Process::forget(bool ended) {
  const pid_t child = std::exchange(pid_, -1);
  if (!helper_) --alive_;
  if (ended)
    std::erase(others_, child);
  else if (!helper_)
    others_.push_back(child);
  return alive_ == 0 ? end_orphans(child, others_) : std::vector<std::string>();
}

void Process::signal_group(int number) const {
  if (pid_ > 0) kill(-pid_, number);
}

std::optional<ProcessEnd> Process::poll() {
  log_.bound();
  siginfo_t info{};
  // Seen but not yet reaped, the child still holds its number, so the group that is killed is surely its own.
  if (pid_ < 0 || waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return std::nullopt;
  signal_group(SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  ProcessEnd end;
  end.orphans = forget(/*ended=*/true);
  log_.bound();
  if (WIFSIGNALED(status)) {
    end.kind = ProcessEnd::Kind::signalled;
    end.signal = WTERMSIG(status);
    if (end.signal == SIGKILL) end.out_of_memory = OomKills::read().rose_since(kills_before_);
  } else {
    end.code = WEXITSTATUS(status);
  }
  return end;
}

std::optional<ProcessEnd> Process::end(double grace_s, Interrupts& interrupts) {
  if (pid_ < 0) return std::nullopt;
  signal_group(SIGTERM);
  const auto start = Clock::now();
  while (seconds_since(start) < grace_s) {
    if (auto end = poll()) return end;
    if (interrupts.wait(std::chrono::milliseconds(20))) break;
  }
  signal_group(SIGKILL);
  const auto killed = Clock::now();
  do
    if (auto end = poll()) return end;
  while (seconds_since(killed) < kill_timeout_s() && !interrupts.wait(std::chrono::milliseconds(20)));
  report_unkilled(pid_);
  forget(/*ended=*/false);
  return ProcessEnd{.kind = ProcessEnd::Kind::signalled, .signal = SIGKILL, .out_of_memory = false};
}

bool ended_from_outside(const ProcessEnd& end) {
  if (end.kind == ProcessEnd::Kind::exited) return end.code > 128 && asks_to_stop(end.code - 128);
  if (end.kind != ProcessEnd::Kind::signalled) return false;
  return asks_to_stop(end.signal) || (end.signal == SIGKILL && !end.out_of_memory.value_or(false));
}

bool was_interrupt(const ProcessEnd& end, Interrupts& interrupts, double otherwise_s) {
  const double limit_s = ended_from_outside(end) ? kOutside : otherwise_s;
  const auto start = Clock::now();
  while (interrupts.poll() == 0 && seconds_since(start) < limit_s)
    interrupts.wait(std::chrono::milliseconds(20));
  return interrupts.signal() != 0;
}

ProcessEnd run_process(const Command& command, const Limits& limits, Interrupts& interrupts) {
  const auto start = Clock::now();
  Process process(command);
  return run_to_end(process, start, limits, interrupts);
}

ProcessEnd run_to_end(Process& process, Clock::time_point start, const Limits& limits,
                      Interrupts& interrupts) {
  ProcessEnd end;
  while (true) {
    interrupts.poll();
    if (auto ended = process.poll()) {
      end = std::move(*ended);
      if (!end.ok() && was_interrupt(end, interrupts)) end.kind = ProcessEnd::Kind::interrupted;
      break;
    }
    const double left = limits.timeout_s - seconds_since(start);
    if (left <= 0 || interrupts.signal() != 0) {
      end.kind = left <= 0 ? ProcessEnd::Kind::timed_out : ProcessEnd::Kind::interrupted;
      process.end(limits.grace_s, interrupts);
      break;
    }
    interrupts.wait(tick_within(left));
  }
  end.seconds = seconds_since(start);
  return end;
}

std::string describe_signal(int number) {
  const char* name = sigabbrev_np(number);
  const char* text = sigdescr_np(number);
  if (name == nullptr || text == nullptr) return "signal " + std::to_string(number);
  std::string description = text;
  description[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(description[0])));
  return "SIG" + std::string(name) + " (" + description + ")";
}
}  // namespace optrush
