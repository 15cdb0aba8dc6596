#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/descriptor.h"

namespace optrush {
/// This machine alone.
inline constexpr const char* kLoopback = "127.0.0.1";

/// A TCP socket that listens: at 127.0.0.1 alone, or at every interface. An Error names the port where that
/// fails. Sockets of this file never block.
Descriptor listen_at(uint16_t port, bool loopback_only);
/// A socket of this machine alone that listens at a path.
Descriptor listen_at(const std::filesystem::path&);
/// The next connection that waits; an empty descriptor where none does.
Descriptor accept_from(const Descriptor& listener);
/// A connection to a host, made within some time; an empty descriptor where there is none, and `problem` says
/// why.
Descriptor connect_to(const std::string& host, uint16_t port, double timeout_s, std::string& problem);

/// A TCP port that is free on this machine now.
uint16_t free_port();
}  // namespace optrush
