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

/// Starts commands of the worker without loading its libraries for each: a server for each environment loads
/// them and is forked for every command, which becomes a child of this process like any other. If a server
/// cannot start or fork, the command is started as usual. (docs/internals/controller.md)
class ForkServer {
 public:
  enum class Use : uint8_t {
    plans,  ///< the simulated device is registered
    runs
  };
  explicit ForkServer(std::filesystem::path worker, Use use = Use::plans)
      : worker_(std::move(worker)), use_(use) {}

  const std::filesystem::path& worker() const { return worker_; }
  /// The first of the command's arguments is the worker. `timeout_s`: for the server's answer.
  std::unique_ptr<Process> start(const Command&, Interrupts&, double timeout_s = 60);
  /// Like run_process().
  ProcessEnd run(const Command&, const Limits&, Interrupts&);
  /// Ends the servers. Later processes have their libraries at other addresses.
  void renew();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Server {
    std::vector<std::string> environment;
    std::unique_ptr<Process> process = {};  ///< null: it cannot be used
    Channel channel;
    bool has_answered = false;
  };

  Server started(const Environment&) const;
  Server& server_of(const Environment&);
  /// The child that has begun to execute this command; none if there is none.
  static std::optional<pid_t> ask(Server&, const Json& request, Time began, double timeout_s, Interrupts&);

  std::filesystem::path worker_;
  Use use_;
  std::vector<Server> servers_;  ///< the one used last at the end
};
}  // namespace optrush
