#include "measure/nvml.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/contains.h"
#include "machine/library_symbol.h"

namespace optrush {
namespace {
// The part of NVML's stable C API that is used here. Its header is only in the CUDA toolkit.
using Result = int;
constexpr Result kSuccess = 0;
constexpr Result kInsufficientSize = 7;
constexpr unsigned kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;

struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kUnknownBytes = ~0ULL;

template <class T>
std::optional<double> thousandths(std::optional<T> value) {
  return value ? std::optional(static_cast<double>(*value) / 1000) : std::nullopt;
}

std::vector<unsigned> numbers_of(const std::vector<Process>& processes) {
  std::vector<unsigned> numbers;
  for (const Process& process : processes) numbers.push_back(process.pid);
  return numbers;
}
}  // namespace

struct Nvml::Functions {
  explicit Functions(void* library) : library(library) {}
  LibrarySymbol find(const char* name) const { return {library, name}; }

  void* library;
  Result (*init)() = find("nvmlInit_v2");
  Result (*shutdown)() = find("nvmlShutdown");
  Result (*driver)(char*, unsigned) = find("nvmlSystemGetDriverVersion");
  Result (*count)(unsigned*) = find("nvmlDeviceGetCount_v2");
  Result (*by_index)(unsigned, Device*) = find("nvmlDeviceGetHandleByIndex_v2");
  Result (*by_bus_id)(const char*, Device*) = find("nvmlDeviceGetHandleByPciBusId_v2");
  Result (*name)(Device, char*, unsigned) = find("nvmlDeviceGetName");
  Result (*memory)(Device, Memory*) = find("nvmlDeviceGetMemoryInfo");
  Result (*capability)(Device, int*, int*) = find("nvmlDeviceGetCudaComputeCapability");
  Result (*ecc)(Device, int*, int*) = find("nvmlDeviceGetEccMode");
  Result (*clock)(Device, unsigned, unsigned*) = find("nvmlDeviceGetClockInfo");
  Result (*max_clock)(Device, unsigned, unsigned*) = find("nvmlDeviceGetMaxClockInfo");
  Result (*temperature)(Device, unsigned, unsigned*) = find("nvmlDeviceGetTemperature");
  Result (*power)(Device, unsigned*) = find("nvmlDeviceGetPowerUsage");
  Result (*power_limit)(Device, unsigned*) = find("nvmlDeviceGetEnforcedPowerLimit");
  Result (*throttling)(Device, unsigned long long*) = find("nvmlDeviceGetCurrentClocksThrottleReasons");
  Result (*energy)(Device, unsigned long long*) = find("nvmlDeviceGetTotalEnergyConsumption");
  Result (*processes)(Device, unsigned*, Process*) = find("nvmlDeviceGetComputeRunningProcesses_v3");

  /// The value that `function` writes; none if the function is missing or fails.
  template <class T>
  static std::optional<T> value(Result (*function)(Device, T*), Device device) {
    T value{};
    return function && function(device, &value) == kSuccess ? std::optional(value) : std::nullopt;
  }
  static std::optional<unsigned> value(Result (*function)(Device, unsigned, unsigned*), Device device,
                                       unsigned which) {
    unsigned value = 0;
    return function && function(device, which, &value) == kSuccess ? std::optional(value) : std::nullopt;
  }

  std::vector<Process> running(Device device) const {
    if (!processes) return {};
    std::vector<Process> list(16);
    for (int attempt = 0; attempt < 4; ++attempt) {
      unsigned count = static_cast<unsigned>(list.size());
      const Result result = processes(device, &count, list.data());
      if (result == kSuccess) {
        list.resize(count);
        return list;
      }
      if (result != kInsufficientSize) break;
      list.resize(count + 16);
    }
    return {};
  }
};

Nvml::Nvml(std::unique_ptr<Functions> functions) : call_(std::move(functions)) {}
// The library stays loaded, because it keeps threads and handlers.
Nvml::~Nvml() { call_->shutdown(); }

std::unique_ptr<Nvml> Nvml::open(std::string& reason, const std::string& library) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    reason = library + " was not found: no NVIDIA driver";
    return nullptr;
  }
  auto call = std::make_unique<Functions>(loaded);
  if (!call->init || !call->shutdown || !call->driver || !call->count || !call->by_index || !call->name) {
    reason = library + " lacks functions that every driver since 2013 has";
    return nullptr;
  }
  if (const Result result = call->init(); result != kSuccess) {
    reason = library + " does not start (NVML error " + std::to_string(result) + ")";
    return nullptr;
  }
  return std::make_unique<Nvml>(std::move(call));
}

std::string Nvml::driver() const {
  std::array<char, 96> text{};
  return call_->driver(text.data(), text.size()) == kSuccess ? text.data() : "unknown";
}

std::vector<Nvml::Device> Nvml::devices() const {
  unsigned count = 0;
  if (call_->count(&count) != kSuccess) return {};
  std::vector<Device> devices;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (call_->by_index(i, &device) == kSuccess) devices.push_back(device);
  }
  return devices;
}

Nvml::Device Nvml::device_at(const std::string& bus_id) const {
  Device device = nullptr;
  if (!call_->by_bus_id || call_->by_bus_id(bus_id.c_str(), &device) != kSuccess) return nullptr;
  return device;
}

GpuInfo Nvml::info(Device device) const {
  GpuInfo gpu;
  std::array<char, 128> text{};
  if (call_->name(device, text.data(), text.size()) == kSuccess) gpu.name = text.data();
  if (const auto memory = Functions::value(call_->memory, device)) {
    gpu.memory_bytes = static_cast<int64_t>(memory->total);
    gpu.used_bytes = static_cast<int64_t>(memory->used);
  }
  if (int major = 0, minor = 0; call_->capability && call_->capability(device, &major, &minor) == kSuccess)
    gpu.sm = "sm_" + std::to_string(major) + std::to_string(minor);
  if (int now = 0, pending = 0; call_->ecc && call_->ecc(device, &now, &pending) == kSuccess)
    gpu.ecc = now != 0;
  gpu.clock_mhz = sm_clock_mhz(device);
  gpu.max_clock_mhz = Functions::value(call_->max_clock, device, kClockSm);
  gpu.memory_clock_mhz = Functions::value(call_->clock, device, kClockMemory);
  gpu.temperature = Functions::value(call_->temperature, device, kTemperatureGpu);
  gpu.power_watts = thousandths(Functions::value(call_->power, device));
  gpu.power_limit_watts = power_limit_watts(device);
  gpu.throttling = throttling(device).value_or(std::vector<std::string>());
  gpu.other_processes = other_processes(numbers_of(call_->running(device)), ProcessView::here());
  return gpu;
}

std::optional<int64_t> Nvml::sm_clock_mhz(Device device) const {
  return Functions::value(call_->clock, device, kClockSm);
}

std::optional<std::vector<std::string>> Nvml::throttling(Device device) const {
  const auto bits = Functions::value(call_->throttling, device);
  return bits ? std::optional(throttle_names(*bits)) : std::nullopt;
}

std::optional<double> Nvml::power_limit_watts(Device device) const {
  return thousandths(Functions::value(call_->power_limit, device));
}

std::optional<double> Nvml::energy_joules(Device device) const {
  return thousandths(Functions::value(call_->energy, device));
}

std::optional<int64_t> Nvml::process_bytes(Device device) const {
  const auto running = call_->running(device);
  const auto own = own_process(numbers_of(running), ProcessView::here());
  if (!own || running[*own].used_bytes == kUnknownBytes) return std::nullopt;
  return static_cast<int64_t>(running[*own].used_bytes);
}

ProcessView ProcessView::here() {
  // On every Linux, the initial PID namespace has this inode (PROC_PID_INIT_INO).
  constexpr ino_t kHost = 0xEFFFFFFC;
  struct stat found {};
  const bool known = stat("/proc/self/ns/pid", &found) == 0;
  return {static_cast<unsigned>(getpid()), known && found.st_ino != kHost};
}

std::optional<size_t> own_process(const std::vector<unsigned>& listed, const ProcessView& view) {
  const auto found = std::ranges::find(listed, view.self);
  if (found != listed.end()) return static_cast<size_t>(found - listed.begin());
  return view.in_namespace && listed.size() == 1 ? std::optional<size_t>(0) : std::nullopt;
}

int64_t other_processes(const std::vector<unsigned>& listed, const ProcessView& view) {
  const bool one_is_this = contains(listed, view.self) || (view.in_namespace && !listed.empty());
  return static_cast<int64_t>(listed.size()) - (one_is_this ? 1 : 0);
}

std::vector<std::string> throttle_names(uint64_t bits) {
  static constexpr std::pair<uint64_t, const char*> kNames[] = {
      {0x04, kPowerCap},
      {0x08, "hw_slowdown"},
      {0x20, "sw_thermal_slowdown"},
      {0x40, "hw_thermal_slowdown"},
      {0x80, "hw_power_brake"},
  };
  std::vector<std::string> names;
  for (const auto& [bit, name] : kNames)
    if (bits & bit) names.emplace_back(name);
  return names;
}
}  // namespace optrush
