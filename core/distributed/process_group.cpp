#include "distributed/process_group.h"

#include <cstdlib>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "optrush/error.h"

namespace optrush {
namespace {
constexpr auto kTimeout = std::chrono::seconds(60);

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr)
    throw Error(std::string(name) + " is not set", "start the ranks with torchrun --no-python");
  return value;
}
}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(c10::intrusive_ptr<c10d::Store> store, int rank,
                                                          int size) {
  const auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  options->timeout = kTimeout;
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

c10::intrusive_ptr<c10d::Store> rendezvous(int rank, int size) {
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(std::stoi(environment("MASTER_PORT")));
  options.isServer = rank == 0 && (agent == nullptr || std::string(agent) != "True");
  options.numWorkers = static_cast<size_t>(size);
  options.waitWorkers = false;
  options.timeout = kTimeout;
  return c10::make_intrusive<c10d::TCPStore>(environment("MASTER_ADDR"), options);
}
}  // namespace optrush
