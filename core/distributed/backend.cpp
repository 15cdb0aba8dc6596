#include "distributed/backend.h"

#include <csignal>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/text.h"
#include "distributed/nccl.h"
#include "machine/environment.h"
#include "optrush/error.h"

namespace optrush {
namespace {
/// The interface that the user names, or the loopback for one machine, or that of this machine's name.
std::shared_ptr<::gloo::transport::Device> gloo_device(const Ranks& ranks) {
  if (const std::string interface = environment_variable("GLOO_SOCKET_IFNAME"); !interface.empty())
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  if (ranks.local_size == ranks.size) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  return c10d::ProcessGroupGloo::createDefaultDevice();
}
}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& name,
                                                          const c10::intrusive_ptr<c10d::Store>& store,
                                                          int64_t rank, int64_t size, at::Device device,
                                                          const Ranks& ranks) {
  // Gloo may write to sockets of ended ranks: an error of the collective, and not the end of this process.
  std::signal(SIGPIPE, SIG_IGN);
  const auto place = static_cast<int>(rank), places = static_cast<int>(size);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, place, places);
  try {
    const auto options = c10d::ProcessGroupGloo::Options::create();
    options->devices.push_back(gloo_device(ranks));
    options->timeout = ranks.timeout;
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                      c10::make_intrusive<c10d::ProcessGroupGloo>(store, place, places, options));
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    if (device.is_cuda()) {
      group->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
                        make_nccl_backend(store, rank, size, device, ranks.timeout, NcclUse::collectives));
      group->setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorCode::network,
                "the group '" + name + "' of " + std::to_string(size) +
                    " ranks can't connect: " + first_line(e.what()),
                "set GLOO_SOCKET_IFNAME (and NCCL_SOCKET_IFNAME) to the network interface between the "
                "machines, and check for a firewall");
  }
  group->setGroupName(name);
  return group;
}
}  // namespace optrush
