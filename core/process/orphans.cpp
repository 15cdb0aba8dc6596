#include "process/orphans.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/files.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr int kMostGenerations = 100;  // of processes that start others while they are ended

bool adopting() {
  int answer = 0;
  return prctl(PR_GET_CHILD_SUBREAPER, &answer) == 0 && answer != 0;
}

struct Child {
  pid_t pid = 0, group = 0;
  std::string name;
  bool ended = false;
};

/// Reads /proc/PID/stat: "4711 (a name) S PARENT GROUP ...".
std::vector<Child> children() {
  std::vector<Child> found;
  std::error_code gone;
  for (fs::directory_iterator entry("/proc", gone), end; !gone && entry != end; entry.increment(gone)) {
    const std::string number = entry->path().filename();
    Child child;
    if (std::from_chars(number.data(), number.data() + number.size(), child.pid).ec != std::errc()) continue;
    std::ifstream in(entry->path() / "stat");
    const std::string text = rest_of(in);
    const size_t open = text.find('('), close = text.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close + 4 >= text.size()) continue;
    std::istringstream numbers(text.substr(close + 4));
    pid_t parent = 0;
    if (!(numbers >> parent >> child.group) || parent != getpid()) continue;
    child.name = text.substr(open + 1, close - open - 1);
    child.ended = text[close + 2] == 'Z';
    found.push_back(child);
  }
  return found;
}
}  // namespace

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

AdoptsOrphans::AdoptsOrphans() : before_(adopting()) { adopt_orphans(); }
AdoptsOrphans::~AdoptsOrphans() {
  if (!before_) prctl(PR_SET_CHILD_SUBREAPER, 0);
}

std::vector<std::string> end_orphans(pid_t group, const std::vector<pid_t>& others) {
  std::vector<std::string> names;
  if (!adopting()) return names;
  for (int generation = 0; generation < kMostGenerations; ++generation) {
    auto orphans = children();
    std::erase_if(orphans, [&](const Child& child) { return std::ranges::count(others, child.pid) != 0; });
    if (orphans.empty()) break;
    for (const auto& orphan : orphans) kill(orphan.pid, SIGKILL);
    for (const auto& orphan : orphans) {
      waitpid(orphan.pid, nullptr, 0);  // its own children are adopted now, and are the next generation
      if (!orphan.ended && orphan.group != group)
        names.push_back(orphan.name + " (" + std::to_string(orphan.pid) + ")");
    }
  }
  return names;
}
}  // namespace optrush
