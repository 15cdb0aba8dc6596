// NVML in a separate library, libnvidia-ml.so.1, as measure/nvml.h opens it. Its numbers come from the
// settings.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "settings.h"

#define FAKE_NVML extern "C" __attribute__((visibility("default")))
using fake_cuda::Settings;

namespace {
constexpr int kSuccess = 0, kInvalid = 2, kNotSupported = 3, kNotFound = 6;
constexpr unsigned kLimitWatts = 700, kSmClock = 1500;
constexpr unsigned long long kPowerCap = 0x4;
/// Handles are 1 + the device's number.
void* handle_of(unsigned index) { return reinterpret_cast<void*>(static_cast<uintptr_t>(index) + 1); }
}  // namespace
FAKE_NVML int nvmlInit_v2() { return kSuccess; }
FAKE_NVML int nvmlShutdown() { return kSuccess; }
FAKE_NVML const char* nvmlErrorString(int) { return "fake_cuda: not supported"; }
FAKE_NVML int nvmlSystemGetDriverVersion(char* text, unsigned room) {
  std::snprintf(text, room, "%s", Settings::get().driver.c_str());
  return kSuccess;
}
FAKE_NVML int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(Settings::get().devices);
  return kSuccess;
}
FAKE_NVML int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= static_cast<unsigned>(Settings::get().devices)) return kInvalid;
  *device = handle_of(index);
  return kSuccess;
}
FAKE_NVML int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  unsigned domain = 0, number = 0;
  if (std::sscanf(bus, "%x:%x", &domain, &number) != 2 || number == 0) return kNotFound;
  return nvmlDeviceGetHandleByIndex_v2(number - 1, device);
}
FAKE_NVML int nvmlDeviceGetHandleByUUID(const char*, void** device) {
  return nvmlDeviceGetHandleByIndex_v2(0, device);
}
// LibTorch calls these when a device is out of memory, and for expandable segments.
FAKE_NVML int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  constexpr int kCuda13 = 13000;
  *version = kCuda13;
  return kSuccess;
}
FAKE_NVML int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return kSuccess;
}
FAKE_NVML int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) { return kNotSupported; }
FAKE_NVML int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) { return kNotSupported; }
FAKE_NVML int nvmlDeviceGetName(void*, char* text, unsigned room) {
  std::snprintf(text, room, "%s", fake_cuda::kDeviceName);
  return kSuccess;
}
FAKE_NVML int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = Settings::get().architecture.major;
  *minor = Settings::get().architecture.minor;
  return kSuccess;
}
FAKE_NVML int nvmlDeviceGetMemoryInfo(void*, void* info) {
  struct Memory {
    unsigned long long total, free, used;
  };
  const unsigned long long total = Settings::get().memory_bytes;
  const Memory memory{total, total, 0};
  std::memcpy(info, &memory, sizeof memory);
  return kSuccess;
}
// With FAKE_CUDA_WATTS: a constant power, and a cap of 700 W that the device has reached if it is that high.
FAKE_NVML int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* millijoules) {
  const std::chrono::duration<double, std::milli> now = std::chrono::steady_clock::now().time_since_epoch();
  *millijoules = static_cast<unsigned long long>(Settings::get().watts * now.count());
  return Settings::get().watts > 0 ? kSuccess : kNotSupported;
}
FAKE_NVML int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 1000 * kLimitWatts;
  return Settings::get().watts > 0 ? kSuccess : kNotSupported;
}
FAKE_NVML int nvmlDeviceGetClockInfo(void*, unsigned, unsigned* megahertz) {
  *megahertz = kSmClock;
  return Settings::get().watts > 0 ? kSuccess : kNotSupported;
}
FAKE_NVML int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = Settings::get().watts >= static_cast<int>(kLimitWatts) ? kPowerCap : 0;
  return Settings::get().watts > 0 ? kSuccess : kNotSupported;
}
