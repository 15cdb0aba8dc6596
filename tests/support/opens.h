#pragma once
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>

#include "base/descriptor.h"

namespace optrush::testing {
/// Counts how often any process opens files of a folder.
class Opens {
 public:
  explicit Opens(const std::filesystem::path& folder) : events_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    // Watches closes as well, because the kernel merges equal consecutive events.
    if (inotify_add_watch(events_.get(), folder.c_str(), IN_OPEN | IN_CLOSE) < 0)
      throw std::runtime_error("cannot watch " + folder.string() + ": " + std::strerror(errno));
  }

  int of(const std::string& file) {
    alignas(inotify_event) std::array<char, 4096> buffer{};
    ssize_t size = 0;
    while ((size = read(events_.get(), buffer.data(), buffer.size())) > 0)
      for (ssize_t at = 0; at < size;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        if ((event->mask & IN_OPEN) != 0 && event->len > 0) ++counts_[event->name];
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    return counts_[file];
  }

 private:
  Descriptor events_;
  std::map<std::string, int> counts_;
};
}  // namespace optrush::testing
