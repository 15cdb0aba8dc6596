#pragma once

/// Version of the interface between host and plugins; 0 changes freely.
#define OPTRUSH_PLUGIN_API 0

namespace optrush {
inline constexpr int kPluginApi = OPTRUSH_PLUGIN_API;
}  // namespace optrush
