#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace optrush::testing {
/// Waits for a killed process to end: it is a zombie until it is reaped, and then it is gone.
inline bool ends(pid_t pid) {
  for (int i = 0; i < 10000; ++i, usleep(1000)) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string word, state;
    if (!(stat >> word >> word >> state) || state == "Z") return true;
  }
  return false;
}

/// A shell script that ends and leaves a process `sleep` in a new session. The process writes its id to
/// `number` first.
inline std::string leaves_a_sleep(const std::filesystem::path& number) {
  return "setsid sh -c 'echo $$ > " + number.string() + "; exec sleep 1000' & while ! test -s " +
         number.string() + "; do sleep 0.01; done";
}
}  // namespace optrush::testing
