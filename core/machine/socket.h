#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace optrush {
/// The loopback address.
inline constexpr const char* kLoopback = "127.0.0.1";

/// A listening TCP socket, at 127.0.0.1 or at every interface. An Error names the port. It never blocks.
Descriptor listen_at(uint16_t port, bool loopback_only);
/// A Unix socket that listens at a path.
Descriptor listen_at(const std::filesystem::path&);
/// Connects to the Unix socket at a path. The connection blocks. Throws an Error if nobody listens there.
Descriptor connect_to(const std::filesystem::path&);
/// Accepts the next waiting connection; an empty descriptor if there is none.
Descriptor accept_from(const Descriptor& listener);
/// Connects to a host within `timeout_s`; an empty descriptor on failure, with the reason in `problem`.
Descriptor connect_to(const std::string& host, uint16_t port, double timeout_s, std::string& problem);

/// A TCP port that is free on this machine at present.
uint16_t free_port();
}  // namespace optrush
