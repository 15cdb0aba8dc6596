#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "measure/cpu_info.h"
#include "measure/nvml.h"
#include "spec/record.h"

namespace optrush {
/// One machine of a job on several machines.
struct HostContext {
  std::string name;
  std::vector<int64_t> ranks;
  std::string cpu, gpus;
};

/// The rate of a product repeated for seconds.
struct SustainedContext {
  std::string dtype;
  bool gpu = false;
  std::vector<int64_t> shape;  ///< m, k, n
  std::optional<double> flops_per_second, seconds;
  std::optional<double> watts, sm_clock_mhz, power_limit_watts, at_power_cap;
};

struct PeakContext {
  std::string device;
  /// Measured FLOP/s of the fastest square matrix product
  std::vector<std::pair<std::string, double>> dtype_flops;
  std::string source, mfu_dtype;
  std::optional<double> mfu_denominator;
  std::vector<SustainedContext> sustained;
};

struct PluginContext {
  std::string name, file, summary, reason;  ///< reason: why it does not work on this machine; "": it works
};

struct PythonContext {
  std::string path, version, torch, vl_convert, no_compile;
};

/// The machine and the software of a report (context.json).
struct Context {
  std::string date, commit, script, script_sha256;  ///< commit, script: of the experiment
  std::string optrush_version, host;
  std::vector<HostContext> hosts;
  std::string os, kernel;
  CpuInfo cpu;
  std::vector<GpuInfo> gpus;
  std::optional<std::string> no_cuda;
  std::string torch, torch_found, cuda;
  std::optional<std::string> nccl;
  std::string compiler, build_type, torch_cpu_capability, mkl, onednn, openmp, malloc;
  std::optional<int64_t> threads;
  std::optional<double> probe_s;
  PeakContext peak;
  std::optional<double> bandwidth_bytes_per_second;
  std::vector<std::pair<std::string, double>> streams_bytes_per_second;
  std::vector<PluginContext> plugins;
  PythonContext python;
  std::vector<std::string> warnings;
  std::string doctor;  ///< why the inspection of the machine failed; "": it did not
};

/// Throws an Error that names a field of another type. Fields may be missing: earlier builds did not write
/// them, or the inspection of the machine failed.
Context context_from_json(const Json&, const std::string& where);
Record<Context> record_of(const Context*);
}  // namespace optrush
