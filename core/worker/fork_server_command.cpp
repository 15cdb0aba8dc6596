#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "machine/fork_protocol.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "simulated/device.h"
#include "worker/commands.h"
#include "worker/resident_pages.h"

namespace optrush {
namespace {
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
      throw Error(ErrorCode::file_access, std::string("cannot create a pipe: ") + std::strerror(errno));
    reading = Descriptor(ends[0]);
    writing = Descriptor(ends[1]);
  }
  Descriptor reading, writing;
};

/// The number of threads of this process.
int64_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

void answer(const Json& message) {
  const std::string line = message.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  if (send(STDIN_FILENO, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    throw Error(ErrorCode::network, "the controller has ended");
}

/// Gives this process the properties of one that the host has executed: it dies with the host, has no input,
/// and writes to a log.
bool take_place(pid_t host, const std::string& log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != host) return false;  // the host died before the line above
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int file = open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  return dup2(null, STDIN_FILENO) >= 0 && dup2(file, STDOUT_FILENO) >= 0 && dup2(file, STDERR_FILENO) >= 0 &&
         close(null) == 0 && close(file) == 0;
}

/// Lets `ps` show these arguments, as far as they fit. The last byte stays zero.
void show(const std::vector<std::string>& arguments, std::span<char> room) {
  std::ranges::fill(room, '\0');
  for (const auto& argument : arguments) {
    if (room.size() <= 1) return;
    const size_t size = std::min(argument.size(), room.size() - 1);
    std::copy_n(argument.begin(), size, room.begin());
    room = room.subspan(size + 1);
  }
}

/// The data that the server passes to each fork.
struct Given {
  pid_t host = 0;
  std::span<char> command_line;
  std::vector<std::span<const char>> pages;  ///< to be mapped again
};

/// Called in the forked process, which ends if it may not begin.
[[noreturn]] void become(const Json& request, const Given& given, Pipe go, const ExecuteCommand& execute) {
  setpgid(0, 0);
  go.writing.close();
  char told = 0;
  if (read(go.reading.get(), &told, 1) != 1 || !take_place(given.host, request.at("log"))) _exit(kNotBegun);
  go.reading.close();
  for (const auto& [name, value] : request.at("environment").items())
    setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  auto arguments = request.at("arguments").get<std::vector<std::string>>();
  show(arguments, given.command_line);
  map_again(given.pages);
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::exit(execute(static_cast<int>(arguments.size()), pointers.data()));
}

/// The process between this one and the new one ends at once, so that the new one is the child of the host,
/// which adopts orphans. The new one begins when the host has received its process id.
void start(const Json& request, const Given& given, const ExecuteCommand& execute) {
  Pipe number, go;
  const pid_t between = fork();
  if (between == 0) {
    number.reading.close();
    const pid_t child = fork();
    if (child == 0) {
      number.writing.close();
      become(request, given, std::move(go), execute);
    }
    [[maybe_unused]] const ssize_t written = write(number.writing.get(), &child, sizeof child);
    _exit(0);
  }
  number.writing.close();
  pid_t child = -1;
  const bool forked =
      between > 0 && read(number.reading.get(), &child, sizeof child) == static_cast<ssize_t>(sizeof child) &&
      child > 0;
  if (between > 0) waitpid(between, nullptr, 0);  // the child is then a child of the host
  if (!forked) return answer({{"refused", "it cannot fork"}});
  answer({{"pid", child}});
  if (write(go.writing.get(), "", 1) == 1) answer({{"begun", true}});
}
}  // namespace

int fork_server_command(const ForkServerRequest& server, const ExecuteCommand& execute) {
  Given given{.host = getppid(), .command_line = server.command_line, .pages = {}};
  if (server.plans)
    simulated::register_device();  // otherwise each fork would do it, and copy the tables of all operators
  else
    given.pages = resident_file_pages();
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line);
    // A forked process does not have the other threads, but keeps the locks that they hold.
    if (const int64_t count = threads(); count != 1)
      answer({{"refused", "it has " + std::to_string(count) + " threads"}});
    else
      start(request, given, execute);
  }
  return 0;
}
}  // namespace optrush
