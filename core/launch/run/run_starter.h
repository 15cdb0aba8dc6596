#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "base/temporary_folder.h"
#include "launch/fork_server.h"
#include "launch/ranks/ranks.h"
#include "launch/run/channel.h"
#include "launch/run/live_run.h"
#include "launch/schedule/needs.h"
#include "launch/schedule/schedule.h"

namespace optrush {
/// The worker of the next run, which opens the GPU while another run sets up, and then waits. So the next run
/// begins with LibTorch's CUDA library loaded and a context of the GPU. (docs/internals/controller.md)
class PreparedWorker {
 public:
  /// The command of the run: `optrush-worker run --spec FILE --out FOLDER`.
  PreparedWorker(ForkServer&, Command, Interrupts&);

  bool is_for(const Command& command) const {
    return command.arguments == command_.arguments && command.environment == command_.environment;
  }
  /// Waits until it has opened the GPU. Returns false if it has ended, after a signal, or if it takes too
  /// long.
  bool wait();
  /// Lets it begin, with more variables, of those that are read late; null if it cannot.
  std::unique_ptr<Process> run(const Environment& added);

 private:
  Command command_;
  Interrupts& interrupts_;
  TemporaryFolder folder_;
  Descriptor listener_;
  std::optional<Channel> channel_;
  std::unique_ptr<Process> process_;
  bool ready_ = false;
};

/// Starts a job: a worker, several ranks, or another program.
class RunStarter {
 public:
  /// `remote_ranks`: of a launcher's job; null: there are none. `starts`: folder for the exported starts of
  /// external programs.
  RunStarter(const std::filesystem::path& worker, RemoteRanks* remote_ranks,
             const std::filesystem::path& starts, Interrupts&);
  ~RunStarter();
  RunStarter(const RunStarter&) = delete;
  RunStarter& operator=(const RunStarter&) = delete;

  /// Must be called before several ranks start.
  void machine_has(int64_t gpus) { gpus_ = gpus; }
  /// The workers of a round are forks of one server.
  void begin_round() {
    prepared_.reset();
    workers_.renew();
  }
  /// Starts a worker that opens the GPU for this run, which comes next. It replaces an earlier one.
  void prepare(const Job&, const std::filesystem::path& folder);
  /// Waits until that worker only waits. Until then no time may be measured.
  void wait_until_prepared();
  /// `folder`: the run's folder with its spec.json. A job that can't be started is returned as a run that has
  /// ended. Null after a signal.
  std::unique_ptr<LiveRun> start(const Job&, const std::filesystem::path& folder, const Environment& added);

 private:
  std::unique_ptr<LiveRun> worker(const Job&, const std::filesystem::path& folder, const Environment& added);
  std::unique_ptr<LiveRun> external(const Job&, const std::filesystem::path& folder,
                                    const Environment& added);

  /// The folder with the start of this spec for other programs: initial values and tokens (`optrush-worker
  /// export`), exported at the first request. Runs with equal starts share a folder, so a model of gigabytes
  /// is written once. An Error states why there is none. None after a signal.
  std::optional<std::filesystem::path> exported_start(const RunSpec&);

  Command command_of(const Job&, const std::filesystem::path& folder) const;

  ForkServer workers_;
  std::optional<PreparedWorker> prepared_;  ///< none, or for a run that has not started
  RemoteRanks* remote_ranks_;
  std::filesystem::path starts_;  ///< removed at the end
  Needs needs_;
  Interrupts& interrupts_;
  int64_t gpus_ = 0;
};
}  // namespace optrush
