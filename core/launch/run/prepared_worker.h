#pragma once
#include <memory>
#include <optional>

#include "base/temporary_folder.h"
#include "launch/fork_server.h"
#include "launch/run/channel.h"

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
}  // namespace optrush
