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
/// How often files of a folder were opened since it was made, by any process.
class Opens {
 public:
  explicit Opens(const std::filesystem::path& folder) : events_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    // With the closes between them no two opens are alike: the kernel joins events that are.
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
