#include "measure/gpus.h"

#include <dlfcn.h>

#include <condition_variable>
#include <mutex>

#include "base/contains.h"
#include "base/seconds_since.h"
#include "build_info.h"
#include "machine/torch_folder.h"
#ifdef OPTRUSH_HAS_CUDA
#include <cuda_runtime_api.h>

#include <array>
#include <utility>
#endif

namespace optrush {
namespace {
#ifdef OPTRUSH_HAS_CUDA
std::string too_old_driver() {
  int version = 0;  // for example 12040 for 12.4
  cudaDriverGetVersion(&version);
  const std::string has = version > 0 ? ": it has CUDA " + std::to_string(version / 1000) + "." +
                                            std::to_string(version % 1000 / 10)
                                      : "";
  return "the NVIDIA driver is too old for CUDA " OPTRUSH_CUDA_VERSION + has +
         ". Update it (580 or newer for CUDA 13), on a data-centre GPU install NVIDIA's cuda-compat package, "
         "or build against a CUDA 12 LibTorch (OPTRUSH_TORCH)";
}

CudaSupport open_cuda() {
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    return {false, "no NVIDIA driver: libcuda.so.1 was not found"};
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaErrorInsufficientDriver) return {false, too_old_driver()};
  if (status != cudaSuccess)
    return {false, std::string("CUDA failed to start: ") + cudaGetErrorString(status)};
  if (devices == 0) return {false, "the NVIDIA driver shows no GPU to this process (CUDA_VISIBLE_DEVICES?)"};
  const auto library = torch_folder() / "lib" / "libtorch_cuda.so";
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) return {false, dlerror()};
  return {true, ""};
}

std::vector<GpuInfo> cuda_gpus(const Nvml* nvml) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return {};
  std::vector<GpuInfo> gpus;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    const auto device = nvml ? nvml->device_at(cuda_bus_id(i)) : nullptr;
    GpuInfo gpu = device ? nvml->info(device) : GpuInfo{};
    // CUDA's name takes precedence: for a partitioned GPU it names the partition.
    gpu.name = properties.name;
    gpu.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
    gpu.sm = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
    gpu.multiprocessors = properties.multiProcessorCount;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}
#else
CudaSupport open_cuda() { return {false, "built against a LibTorch without CUDA"}; }
std::vector<GpuInfo> cuda_gpus(const Nvml*) { return {}; }
#endif
}  // namespace

const CudaSupport& load_cuda() {
  static const CudaSupport support = open_cuda();
  return support;
}

std::vector<GpuInfo> visible_gpus(const Nvml* nvml) {
  if (load_cuda()) return cuda_gpus(nvml);
  std::vector<GpuInfo> gpus;
  if (nvml)
    for (const auto device : nvml->devices()) gpus.push_back(nvml->info(device));
  return gpus;
}

std::string cuda_bus_id([[maybe_unused]] int index) {
#ifdef OPTRUSH_HAS_CUDA
  std::array<char, 32> text{};
  if (load_cuda() && cudaDeviceGetPCIBusId(text.data(), text.size(), index) == cudaSuccess)
    return text.data();
#endif
  return "";
}

int64_t cuda_cache_bytes([[maybe_unused]] int index) {
#ifdef OPTRUSH_HAS_CUDA
  int bytes = 0;
  if (load_cuda() && cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, index) == cudaSuccess)
    return bytes;
#endif
  return 0;
}

GpuMeter::GpuMeter(at::Device device) {
  if (!device.is_cuda()) return;
  std::string reason;
  nvml_ = Nvml::open(reason);
  if (nvml_) device_ = nvml_->device_at(cuda_bus_id(device.has_index() ? device.index() : 0));
}

GpuMeter::GpuMeter(std::unique_ptr<Nvml> nvml, Nvml::Device device)
    : nvml_(std::move(nvml)), device_(device) {}

void GpuMeter::start() {
  started_ = std::chrono::steady_clock::now();
  if (device_ == nullptr) return;
  sampler_ = std::jthread([this](const std::stop_token& stop) {
    constexpr auto kPeriod = std::chrono::milliseconds(100);
    std::mutex unshared;
    std::condition_variable_any stopped;
    std::unique_lock lock(unshared);
    while (!stopped.wait_for(lock, stop, kPeriod, [&] { return stop.stop_requested(); })) sample();
  });
  joules_at_start_ = counter();
  started_ = std::chrono::steady_clock::now();
}

std::optional<double> GpuMeter::stop() {
  const auto now = counter();
  seconds_ += seconds_since(started_);
  if (device_ == nullptr) return std::nullopt;
  sampler_ = std::jthread();  // waits for the end of the thread
  if (samples_ == 0) sample();
  const auto joules = now && joules_at_start_ ? std::optional(*now - *joules_at_start_) : std::nullopt;
  joules_ = joules && joules_ ? std::optional(*joules_ + *joules) : std::nullopt;
  return joules;
}

void GpuMeter::sample() {
  ++samples_;
  if (const auto clock = nvml_->sm_clock_mhz(device_)) {
    clocks_ += static_cast<double>(*clock);
    ++of_clock_;
  }
  const auto reasons = nvml_->throttling(device_);
  if (!reasons) return;
  knows_throttling_ = true;
  throttling_.insert(reasons->begin(), reasons->end());
  if (contains(*reasons, kPowerCap)) ++at_cap_;
}

GpuReadings GpuMeter::readings() const {
  GpuReadings found{.seconds = seconds_};
  if (device_ == nullptr || samples_ == 0) return found;
  found.joules = joules_;
  found.power_limit_watts = nvml_->power_limit_watts(device_);
  found.throttling = throttling_;
  if (of_clock_ > 0) found.sm_clock_mhz = clocks_ / static_cast<double>(of_clock_);
  if (knows_throttling_) found.at_power_cap = static_cast<double>(at_cap_) / static_cast<double>(samples_);
  return found;
}

std::optional<int64_t> GpuMeter::process_bytes() const {
  return device_ ? nvml_->process_bytes(device_) : std::nullopt;
}

std::optional<double> GpuMeter::counter() const {
  return device_ ? nvml_->energy_joules(device_) : std::nullopt;
}
}  // namespace optrush
