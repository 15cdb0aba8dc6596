// A fake libnvidia-ml.so.1 with two GPUs. The second is old and supports few functions.
#include <unistd.h>

#include <cstring>

namespace {
constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6, kInsufficientSize = 7;
int first = 0, second = 1;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): devices
bool is_first(void* device) { return device == &first; }

struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVML's.
extern "C" {
int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlSystemGetDriverVersion(char* text, unsigned) {
  std::strcpy(text, "570.12.34");
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = index == 0 ? &first : &second;
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  *device = &first;
  return std::strcmp(id, "0000:1b:00.0") == 0 ? kSuccess : kNotFound;
}
int nvmlDeviceGetName(void* device, char* text, unsigned) {
  std::strcpy(text, is_first(device) ? "NVIDIA H100 80GB HBM3" : "Old GPU");
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  *memory = {85'000'000'000, 84'000'000'000, 1'000'000'000};
  return is_first(device) ? kSuccess : kNotSupported;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  *major = is_first(device) ? 9 : 3;
  *minor = is_first(device) ? 0 : 5;
  return kSuccess;
}
int nvmlDeviceGetEccMode(void* device, int* now, int* pending) {
  *now = *pending = 1;
  return is_first(device) ? kSuccess : kNotSupported;
}
int nvmlDeviceGetClockInfo(void* device, unsigned which, unsigned* mhz) {
  *mhz = which == 1 ? 1200 : 2619;
  return is_first(device) ? kSuccess : kNotSupported;
}
int nvmlDeviceGetMaxClockInfo(void* device, unsigned, unsigned* mhz) {
  *mhz = 1980;
  return is_first(device) ? kSuccess : kNotSupported;
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  *milliwatts = 500000;
  return is_first(device) ? kSuccess : kNotSupported;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* bits) {
  *bits = 0x1 | 0x4 | 0x40;  // idle, power cap, hot
  return is_first(device) ? kSuccess : kNotSupported;
}
/// 5 J more at each call.
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  static unsigned long long total = 1'000'000;
  *millijoules = total += 5000;
  return is_first(device) ? kSuccess : kNotSupported;
}
/// This process and 20 others: more than fit into a small first buffer.
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  if (!is_first(device)) return kNotSupported;
  constexpr unsigned kRunning = 21;
  const unsigned room = *count;
  *count = kRunning;
  if (room < kRunning) return kInsufficientSize;
  for (unsigned i = 0; i < kRunning; ++i)
    processes[i] = {static_cast<unsigned>(getpid()) + i, 700'000'000, 0, 0};
  return kSuccess;
}
}
// NOLINTEND(readability-identifier-naming)
