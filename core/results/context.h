#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "spec/record.h"

namespace optrush {
struct CpuContext {
  std::string name;
  std::optional<std::string> model;       ///< family and model of the processor
  std::optional<int64_t> cores, threads;  ///< physical and logical cores that the process may use
  std::optional<double> quota;
  std::vector<std::string> isa;
  std::optional<int64_t> cache_bytes, memory_bytes;
  std::optional<std::string> governor, huge_pages;
  std::optional<double> load_average, busy;
};

struct GpuContext {
  std::string name;
  std::optional<int64_t> memory_bytes, used_bytes;
  std::string sm;
  std::optional<int64_t> multiprocessors;
  std::optional<std::string> driver;
  std::optional<bool> ecc;
  std::optional<int64_t> clock_mhz, max_clock_mhz, memory_clock_mhz;
  std::optional<double> power_watts, power_limit_watts;
  std::optional<int64_t> temperature;
  std::vector<std::string> throttling;
  std::optional<int64_t> other_processes;
};

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
  CpuContext cpu;
  std::vector<GpuContext> gpus;
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
/// docs/schema/context.schema.json, generated from the declaration.
Json context_schema();
}  // namespace optrush
