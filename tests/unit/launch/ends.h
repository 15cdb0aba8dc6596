#pragma once
#include <unistd.h>

#include <fstream>
#include <string>

namespace optrush::testing {
/// Waits for a process that was killed: it is gone once somebody has reaped it, until then it is a zombie.
inline bool ends(pid_t pid) {
  for (int i = 0; i < 10000; ++i, usleep(1000)) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string word, state;
    if (!(stat >> word >> word >> state) || state == "Z") return true;
  }
  return false;
}
}  // namespace optrush::testing
