#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/run/channel.h"
#include "process/process.h"

namespace optrush {
/// Runs commands of the worker without loading its libraries for each: one worker loads them, and is forked
/// for every command. Each command has a process as any other: a child of this one in a process group, with
/// its log and its limits. A worker reads its environment while it loads, so a command with another
/// environment gets another server. Where a server cannot start or fork, the command is started as usual.
/// (docs/internals/controller.md)
class ForkServer {
 public:
  explicit ForkServer(std::filesystem::path worker) : worker_(std::move(worker)) {}

  const std::filesystem::path& worker() const { return worker_; }
  /// As run_process(). The first of the command's arguments is the worker.
  ProcessEnd run(const Command&, const Limits&, Interrupts&);

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// A worker that waits for command lines.
  struct Server {
    Server(const std::filesystem::path& worker, const Environment&);

    std::vector<std::string> environment;
    std::unique_ptr<Process> process;  ///< null: it cannot be used
    Channel channel;
    bool has_answered = false;
  };

  std::unique_ptr<Process> forked(const Command&, Time start, const Limits&, Interrupts&);
  /// The child that the server has started for this command; none where there is none.
  std::optional<pid_t> ask(const Command&, Time start, const Limits&, Interrupts&);

  std::filesystem::path worker_;
  std::optional<Server> server_;
};
}  // namespace optrush
