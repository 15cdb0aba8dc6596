#include "process/orphans.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include "base/seconds_since.h"
#include "machine/environment.h"
#include "machine/kernel_files.h"
#include "process/terminal.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr int kMostGenerations = 100;  // of processes that start others while they are ended

bool adopting() {
  int answer = 0;
  return prctl(PR_GET_CHILD_SUBREAPER, &answer) == 0 && answer != 0;
}

struct Child {
  pid_t pid = 0, group = 0, parent = 0;
  std::string name;
  char state = '?';
};

/// Reads /proc/PID/stat: "4711 (a name) S PARENT GROUP ..."; none if there is no such process.
std::optional<Child> child_of(pid_t pid) {
  Child child{.pid = pid};
  const std::string text = kernel_text("/proc/" + std::to_string(pid) + "/stat");
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 4 >= text.size())
    return std::nullopt;
  std::istringstream numbers(text.substr(close + 4));
  if (!(numbers >> child.parent >> child.group)) return std::nullopt;
  child.name = text.substr(open + 1, close - open - 1);
  child.state = text[close + 2];
  return child;
}

std::vector<Child> children() {
  std::vector<Child> found;
  std::error_code gone;
  for (fs::directory_iterator entry("/proc", gone), end; !gone && entry != end; entry.increment(gone)) {
    const std::string number = entry->path().filename();
    pid_t pid = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), pid).ec != std::errc()) continue;
    const auto child = child_of(pid);
    if (child && child->parent == getpid()) found.push_back(*child);
  }
  return found;
}
}  // namespace

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

AdoptsOrphans::AdoptsOrphans() : before_(adopting()) { adopt_orphans(); }
AdoptsOrphans::~AdoptsOrphans() {
  if (!before_) prctl(PR_SET_CHILD_SUBREAPER, 0);
}

double kill_timeout_s() { return environment_seconds("OPTRUSH_KILL_TIMEOUT", 30); }

bool reap(pid_t pid) {
  const auto start = std::chrono::steady_clock::now();
  while (waitpid(pid, nullptr, WNOHANG) == 0) {
    if (seconds_since(start) >= kill_timeout_s()) {
      report_unkilled(pid);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

void report_unkilled(pid_t pid) {
  const Child child = child_of(pid).value_or(Child{.pid = pid});
  const std::string waits = kernel_text("/proc/" + std::to_string(pid) + "/wchan");
  Terminal::of(2).write("optrush: process " + std::to_string(pid) + " (" + child.name +
                        ") is left, because SIGKILL does not end it: state " + child.state +
                        (waits.empty() || waits == "0" ? "" : ", the kernel waits in " + waits) + "\n");
}

std::vector<std::string> end_orphans(pid_t group, std::vector<pid_t>& others) {
  std::vector<std::string> names;
  if (!adopting()) return names;
  for (int generation = 0; generation < kMostGenerations; ++generation) {
    auto orphans = children();
    std::erase_if(orphans, [&](const Child& child) { return std::ranges::count(others, child.pid) != 0; });
    if (orphans.empty()) break;
    for (const auto& orphan : orphans) kill(orphan.pid, SIGKILL);
    for (const auto& orphan : orphans) {
      if (!reap(orphan.pid)) {
        others.push_back(orphan.pid);
        continue;
      }
      // its own children are adopted now, and are the next generation
      if (orphan.state != 'Z' && orphan.group != group)
        names.push_back(orphan.name + " (" + std::to_string(orphan.pid) + ")");
    }
  }
  return names;
}
}  // namespace optrush
