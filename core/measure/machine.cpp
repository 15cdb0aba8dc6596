#include "measure/machine.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "base/contains.h"
#include "base/number_text.h"
#include "build_info.h"
#include "machine/torch_folder.h"
#include "measure/gpus.h"
#include "measure/matmul_peak.h"
#ifdef USE_C10D_NCCL
#include <nccl.h>
#endif

namespace optrush {
namespace {
struct Peak {
  std::string_view name;
  double teraflops;
};
// Dense FLOP/s, not the doubled figure "with sparsity"; accumulation in fp32.
constexpr Peak kPeaks[] = {
    {"NVIDIA A100-PCIE-40GB", 312},  {"NVIDIA A100-SXM4-40GB", 312},
    {"NVIDIA A100 80GB PCIe", 312},  {"NVIDIA A100-SXM4-80GB", 312},
    {"NVIDIA H100 80GB HBM3", 989},  {"NVIDIA H100 PCIe", 756},
    {"NVIDIA H100 NVL", 835},        {"NVIDIA H200", 989},
    {"NVIDIA B200", 2250},           {"NVIDIA GeForce RTX 4090", 165},
    {"NVIDIA GeForce RTX 3090", 71},
};

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

/// The allocator behind malloc, recognized by a function that only it exports.
std::string malloc_name() {
  const auto present = [](const char* symbol) { return dlsym(RTLD_DEFAULT, symbol) != nullptr; };
  if (present("mallctl")) return "jemalloc";
  if (present("tc_version") || present("MallocExtension_Internal_GetNumericProperty")) return "tcmalloc";
  if (present("mi_version")) return "mimalloc";
  return std::string("glibc ") + gnu_get_libc_version();
}

std::string nccl_version() {
#ifdef USE_C10D_NCCL
  int code = NCCL_VERSION_CODE;
  // The loaded library may have another version than the header.
  if (auto* loaded = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "ncclGetVersion"))) loaded(&code);
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
#else
  return "";
#endif
}

double busy_now() {
  const CpuTimes before = read_cpu_times();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return busy_processors(before, read_cpu_times());
}

Json sustained_of(const MachineRequest& request) {
  const bool on_gpu = request.device.is_cuda();
  const double usual = request.probe_s / (on_gpu ? 4 : 24);
  Json list = Json::array();
  for (const auto& [dtype, m, k, n, rate, gpu] :
       measure_sustained(request.device, request.sustained_s > 0 ? request.sustained_s : usual))
    list.push_back({{"dtype", dtype},
                    {"gpu", on_gpu},
                    {"shape", {m, k, n}},
                    {"flops_per_second", rate},
                    {"seconds", gpu.seconds},
                    {"watts", record::written(gpu.watts())},
                    {"sm_clock_mhz", record::written(gpu.sm_clock_mhz)},
                    {"power_limit_watts", record::written(gpu.power_limit_watts)},
                    {"at_power_cap", record::written(gpu.at_power_cap)}});
  return list;
}

/// The denominator of MFU: the maker's figure, otherwise the larger of the measured fp32 and bf16 peaks.
Json peak_of(at::Device device, const std::string& name, double seconds) {
  Json flops = Json::object();
  for (const auto& [dtype, rate] : measure_matmul_peak(device, seconds)) flops[dtype] = rate;
  const auto published = device.is_cuda() ? published_bf16_peak(name) : std::nullopt;
  const double fp32 = flops.at("fp32"), bf16 = flops.at("bf16");
  return {{"device", name},
          {"dtype_flops", flops},
          {"source", published ? "table" : "measured"},
          {"mfu_dtype", published || bf16 >= fp32 ? "bf16" : "fp32"},
          {"mfu_denominator", published.value_or(std::max(fp32, bf16))}};
}

/// Four times the last-level cache, which streams from memory, but at most a quarter of the free memory.
int64_t streaming_bytes(at::Device device, const CpuInfo& cpu) {
  // On a GPU, large enough that a copy takes much longer than its launch.
  const int64_t least = int64_t{device.is_cuda() ? 2048 : 256} << 20;
  const int64_t cache = device.is_cuda() ? cuda_cache_bytes(device.index()) : cpu.cache_bytes.value_or(0);
  const int64_t bytes = std::max(4 * cache, least);
  return device.is_cuda() ? bytes : std::min(bytes, cpu.available_bytes / 4);
}

/// Reads throttling again after the measurement, because it appears under load.
void add_throttling(std::vector<GpuInfo>& gpus, const Nvml* nvml) {
  const auto after = visible_gpus(nvml);
  for (size_t i = 0; i < std::min(gpus.size(), after.size()); ++i)
    for (const auto& reason : after[i].throttling)
      if (!contains(gpus[i].throttling, reason)) gpus[i].throttling.push_back(reason);
}
}  // namespace

std::optional<double> published_bf16_peak(std::string_view device_name) {
  for (const Peak& peak : kPeaks)
    if (peak.name == device_name) return peak.teraflops * 1e12;
  return std::nullopt;
}

std::vector<std::string> machine_warnings(const CpuInfo& cpu, const std::vector<GpuInfo>& gpus,
                                          const std::string& driver) {
  constexpr int kLeastDriver = 580;  // the oldest driver for CUDA 13
  std::vector<std::string> warnings;
  if (is_busy(cpu.busy, static_cast<double>(cpu.threads)))
    warnings.push_back("the machine is busy: other programs use " + fixed(cpu.busy, 1) + " of " +
                       std::to_string(cpu.threads) + " processors; timings will vary");
  // With Intel's and AMD's own drivers, "powersave" does not slow the CPU down.
  if (cpu.governor == "powersave" && cpu.governor_driver != "intel_pstate" &&
      cpu.governor_driver != "amd-pstate-epp")
    warnings.emplace_back(
        "the CPU's governor is 'powersave', which lowers its clock; set it with cpupower frequency-set -g "
        "performance");
  if (cpu.broken_amx)
    warnings.emplace_back(
        "this virtual machine announces AMX but hides its tile configuration (CPUID leaf 1Dh), so the program"
        " disables AMX; bf16 is slower than on other machines with this processor");
  if (cpu.quota > 0 && cpu.quota < static_cast<double>(cpu.threads))
    warnings.push_back("a control group limits this process to " + fixed(*cpu.quota, 1) + " of " +
                       std::to_string(cpu.threads) + " processors; it is paused when it uses more");
  for (size_t i = 0; i < gpus.size(); ++i) {
    const std::string gpu = "GPU " + std::to_string(i) + " (" + gpus[i].name + ")";
    for (const auto& reason : gpus[i].throttling) warnings.push_back(gpu + " lowers its clock: " + reason);
    if (gpus[i].other_processes > 0)
      warnings.push_back(gpu + " is shared with " + std::to_string(gpus[i].other_processes) +
                         " other process" + (gpus[i].other_processes == 1 ? "" : "es"));
  }
  int major = 0;
  std::from_chars(driver.data(), driver.data() + driver.size(), major);
  if (major > 0 && major < kLeastDriver && std::string_view(OPTRUSH_CUDA_VERSION).starts_with("13"))
    warnings.push_back("the NVIDIA driver is " + driver +
                       ": CUDA " OPTRUSH_CUDA_VERSION
                       " needs 580 or newer. Update it, or build against a CUDA 12 LibTorch (OPTRUSH_TORCH)");
  return warnings;
}

Json machine_context(const MachineRequest& request) {
  const double busy = busy_now();
  CpuInfo cpu = read_cpu();
  cpu.busy = busy;
  std::string no_gpu;
  const auto nvml = Nvml::open(no_gpu);
  const std::string driver = nvml ? nvml->driver() : "";
  const CudaSupport& cuda = load_cuda();
  auto gpus = visible_gpus(nvml.get());
  if (!driver.empty())
    for (GpuInfo& gpu : gpus) gpu.driver = driver;

  const bool on_gpu = request.device.is_cuda();
  const std::string device_name = on_gpu ? gpus.at(request.device.index()).name : cpu.name;
  constexpr double kPeakShare = 2.0 / 3;
  Json peak = peak_of(request.device, device_name, kPeakShare * request.probe_s);
  peak["sustained"] = sustained_of(request);
  Json streams = Json::object();
  for (const auto& [name, rate] : measure_bandwidths(request.device, streaming_bytes(request.device, cpu),
                                                     (1 - kPeakShare) * request.probe_s))
    streams[name] = rate;
  add_throttling(gpus, nvml.get());

  utsname kernel{};
  uname(&kernel);
  return {
      {"optrush_version", OPTRUSH_VERSION},
      {"host", kernel.nodename},
      {"os", operating_system()},
      {"kernel", std::string(kernel.sysname) + " " + kernel.release + " " + kernel.machine},
      {"cpu", fields_of<CpuInfo>().write(cpu)},
      {"gpus", record::written(gpus)},
      {"no_cuda", or_null(cuda.reason)},
      {"torch", OPTRUSH_TORCH_VERSION},
      {"torch_found", torch_version_in(torch_folder())},
      {"cuda", OPTRUSH_CUDA_VERSION},
      {"nccl", or_null(nccl_version())},
      {"compiler", OPTRUSH_COMPILER},
      {"build_type", OPTRUSH_BUILD_TYPE},
      {"torch_cpu_capability", at::get_cpu_capability()},
      {"mkl", at::get_mkl_version()},
      {"onednn", at::get_mkldnn_version()},
      {"openmp", at::get_openmp_version()},
      {"malloc", malloc_name()},
      {"threads", at::get_num_threads()},
      {"probe_s", request.probe_s},
      {"peak", peak},
      {"bandwidth_bytes_per_second", std::max(streams["copy"].get<double>(), streams["triad"].get<double>())},
      {"streams_bytes_per_second", streams},
      {"warnings", machine_warnings(cpu, gpus, driver)}};
}
}  // namespace optrush
