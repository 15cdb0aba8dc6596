#include "settings.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake_cuda {
namespace {
[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "fake_cuda: %s\n", why.c_str());
  std::_Exit(2);
}

std::string text_of(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

uint64_t number_of(const char* name, uint64_t standard, uint64_t least, uint64_t most) {
  const std::string text = text_of(name);
  if (text.empty()) return standard;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (*end != 0 || value < least || value > most)
    refuse(std::string(name) + "=" + text + ": a number from " + std::to_string(least) + " to " +
           std::to_string(most) + " is needed");
  return value;
}

Architecture architecture_of(const std::string& name) {
  if (name == "sm_80") return {8, 0, 108, 167936, 166912, 41943040, 85094825984};
  if (name == "sm_90" || name.empty()) return {9, 0, 132, 233472, 232448, 52428800, 85017493504};
  if (name == "sm_100") return {10, 0, 148, 233472, 232448, 132644864, 191503138816};
  refuse("FAKE_CUDA_ARCH=" + name + ": sm_80, sm_90 or sm_100 is needed");
}

Settings read() {
  if (text_of("FAKE_CUDA") != "1")
    refuse(
        "this library stands for a GPU in tests and computes nothing. Set FAKE_CUDA=1 if that is what you "
        "want.");
  if (access("/dev/nvidiactl", F_OK) == 0 || access("/proc/driver/nvidia/version", F_OK) == 0)
    refuse("this machine has an NVIDIA driver. The stand-in runs only where there is none.");
  Settings s;
  s.architecture = architecture_of(text_of("FAKE_CUDA_ARCH"));
  s.memory_bytes = number_of("FAKE_CUDA_MEMORY", s.architecture.memory_bytes, 1ULL << 30, 1ULL << 40);
  s.devices = static_cast<int>(number_of("FAKE_CUDA_DEVICES", 1, 1, 8));
  s.kept_bytes = number_of("FAKE_CUDA_KEEP", 256ULL << 20, 0, 1ULL << 40);
  if (const std::string text = text_of("FAKE_CUDA_UNKNOWN"); !text.empty())
    s.unknown = std::strtof(text.c_str(), nullptr);
  s.driver = text_of("FAKE_CUDA_DRIVER");
  if (s.driver.empty()) s.driver = "none (fake_cuda)";
  s.report = text_of("FAKE_CUDA_REPORT");
  s.trace = text_of("FAKE_CUDA_TRACE");
  s.nccl = text_of("FAKE_CUDA_NCCL");
  s.nccl_seconds = static_cast<int>(number_of("FAKE_CUDA_NCCL_SECONDS", 120, 1, 3600));
  s.watts = static_cast<int>(number_of("FAKE_CUDA_WATTS", 0, 1, 1000));
  s.strict = text_of("FAKE_CUDA_STRICT") != "0";
  return s;
}
}  // namespace

namespace {
bool used = false;
}  // namespace

const Settings& Settings::get() {
  // Never destroyed, because the counts are written after other objects are destroyed.
  static const Settings& settings = *new Settings([] {
    used = true;
    return read();
  }());
  return settings;
}
bool Settings::in_use() { return used; }
}  // namespace fake_cuda
