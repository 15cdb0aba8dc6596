#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/run/channel.h"
#include "optrush/spec.h"
#include "process/process.h"

namespace optrush {
/// The environment of a worker, with the variables of the spec. The number of OpenMP's threads is from the
/// spec, otherwise from OMP_NUM_THREADS, otherwise `cores` (0: OpenMP's default). Threads sleep while they
/// wait, so that the threads of two OpenMP runtimes do not compete for the cores.
Environment worker_environment(const RunSpec&, int64_t cores = 0);

/// Starts commands of the worker without loading its libraries for each: a server loads them and is forked
/// for every command. Each command is a child of this process in a process group, with its log and its
/// limits, like any other. Libraries read their environment while they load, so each environment has its own
/// server. If a server cannot start or fork, the command is started as usual. (docs/internals/controller.md)
class ForkServer {
 public:
  enum class Use : uint8_t {
    plans,  ///< the simulated device is registered
    runs
  };
  explicit ForkServer(std::filesystem::path worker, Use use = Use::plans)
      : worker_(std::move(worker)), use_(use) {}

  const std::filesystem::path& worker() const { return worker_; }
  /// The first of the command's arguments is the worker.
  std::unique_ptr<Process> start(const Command&, Interrupts&);
  /// Like run_process().
  ProcessEnd run(const Command&, const Limits&, Interrupts&);
  /// Ends the servers. Processes of one server have their libraries at the same addresses. Later processes
  /// have them at other addresses.
  void renew();

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// A worker that waits for command lines.
  struct Server {
    std::vector<std::string> environment;
    std::unique_ptr<Process> process = {};  ///< null: it cannot be used
    Channel channel;
    bool has_answered = false;
  };

  Server started(const Environment&) const;
  /// The server of this environment, at the end of the list.
  Server& server_of(const Environment&);
  /// Null if there is no server.
  std::unique_ptr<Process> forked(const Command&, Time start, double timeout_s, Interrupts&);
  /// The child that has begun to execute this command; none if there is none.
  static std::optional<pid_t> ask(Server&, const Json& request, Time start, double timeout_s, Interrupts&);

  std::filesystem::path worker_;
  Use use_;
  std::vector<Server> servers_;  ///< the one used last at the end
};
}  // namespace optrush
