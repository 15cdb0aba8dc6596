#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "machine/child.h"
#include "machine/fork_protocol.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "simulated/device.h"
#include "worker/commands.h"

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

/// Makes this process as one that the host executes: it dies with the host and writes to a log.
bool become_child_of(pid_t host, const std::string& log) {
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

constexpr uint64_t kPresent = uint64_t{1} << 63;  // of an entry of pagemap: proc_pid_pagemap(5)

/// Whether each page from `begin` on is in memory; empty if the kernel does not report it.
std::vector<uint64_t> entries_of(int pagemap, uint64_t begin, uint64_t end, uint64_t page) {
  std::vector<uint64_t> entries((end - begin) / page);
  const size_t bytes = entries.size() * sizeof(uint64_t);
  const auto at = static_cast<off_t>(begin / page * sizeof(uint64_t));
  if (pread(pagemap, entries.data(), bytes, at) != static_cast<ssize_t>(bytes)) entries.clear();
  return entries;
}

/// Read-only pages of files that this process has in memory, by range. A fork lacks them until it reads.
std::vector<std::span<const char>> resident_file_pages() {
  std::vector<std::span<const char>> ranges;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const Descriptor pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::ifstream maps("/proc/self/maps");
  // 7f1000-7f3000 r-xp 00001000 08:01 4711   /lib/libc.so.6
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0;
    char readable = 0, writable = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %c%c", &begin, &end, &readable, &writable) != 4 ||
        readable != 'r' || writable == 'w' || line.find('/') == std::string::npos)
      continue;
    const auto entries = entries_of(pagemap.get(), begin, end, page);
    for (size_t i = 0; i < entries.size();) {
      size_t next = i;
      while (next < entries.size() && (entries[next] & kPresent) != 0) ++next;
      if (next > i)
        ranges.emplace_back(reinterpret_cast<const char*>(begin + i * page), (next - i) * page);  // NOLINT
      i = next + 1;
    }
  }
  return ranges;
}

/// Maps these pages again after a fork, so that its resident memory includes the libraries.
void map_again(const std::vector<std::span<const char>>& ranges) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const auto& range : ranges)
    for (size_t at = 0; at < range.size(); at += page)
      static_cast<void>(*static_cast<const volatile char*>(&range[at]));
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
  char byte = 0;
  if (read(go.reading.get(), &byte, 1) != 1 || !become_child_of(given.host, request.at("log")))
    _exit(kNotBegun);
  go.reading.close();
  for (const auto& [name, value] : request.at("environment").items())
    setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  auto arguments = request.at("arguments").get<std::vector<std::string>>();
  show(arguments, given.command_line);
  map_again(given.pages);
  std::exit(execute(static_cast<int>(arguments.size()), pointers_to(arguments).data()));
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
