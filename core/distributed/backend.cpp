#include "distributed/backend.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gloo/common/error.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <new>
#include <system_error>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/peer_error.h"
#include "base/text.h"
#include "machine/environment.h"
#include "measure/gpus.h"
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

MakeNccl* open_maker() {
  if (const CudaSupport& cuda = load_cuda(); !cuda) throw Skip("NCCL is not available: " + cuda.reason);
  Dl_info here{};
  dladdr(reinterpret_cast<const void*>(&load_cuda), &here);
  const auto library = std::filesystem::path(here.dli_fname).parent_path() / "liboptrush_cuda.so";
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* maker = handle != nullptr ? dlsym(handle, kMakeNccl) : nullptr;
  if (maker == nullptr)
    throw Error(ErrorCode::missing_requirement, "NCCL cannot be loaded: " + std::string(dlerror()),
                "build against a LibTorch with CUDA and NCCL (headers: package nvidia-nccl-cu13)");
  return reinterpret_cast<MakeNccl*>(maker);
}

[[noreturn]] void throw_peer_error(const std::string& what, const std::exception& e) {
  const std::string text = e.what(), line = first_line(text);
  const bool late = text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
  if (late)
    throw PeerError(
        PeerError::Cause::late, what + " timed out, because some ranks did not join (" + line + ")",
        "read the logs of the other ranks; set OPTRUSH_COLLECTIVE_TIMEOUT=SECONDS to wait longer");
  throw PeerError(PeerError::Cause::gone, what + " lost a rank (" + line + ")",
                  "read the log of the rank that failed first");
}

/// Whether an error is of the connection between ranks. NCCL reports own failures by the same class.
bool is_of_connection(const c10::Error& e) {
  static constexpr std::array<const char*, 3> kOwn = {"ncclInvalidArgument", "ncclInvalidUsage",
                                                      "ncclUnhandledCudaError"};
  const std::string text = e.what();
  return dynamic_cast<const c10::DistError*>(&e) != nullptr &&
         std::ranges::none_of(kOwn, [&](const char* own) { return text.find(own) != std::string::npos; });
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
      group->setBackend(
          c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
          make_nccl_backend({store, place, places, device, ranks.timeout, NcclRequest::Use::collectives}));
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

void call_collective(const std::string& what, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error&) {
    throw;
  } catch (c10::Error& e) {
    if (is_of_connection(e)) throw_peer_error(what, e);
    e.add_context(what);
    throw;
  } catch (const ::gloo::IoException& e) {
    throw_peer_error(what, e);
  } catch (const std::system_error& e) {
    throw_peer_error(what, e);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorCode::invalid_plugin, what + ": " + first_line(e.what()),
                "give every rank's tensors the type, the size and the strides that the collective needs");
  }
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(NcclRequest request) {
  static MakeNccl* const make = open_maker();  // NOLINT: a function
  make(request);
  return request.made;
}
}  // namespace optrush
