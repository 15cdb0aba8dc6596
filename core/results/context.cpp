#include "results/context.h"

namespace optrush {
Record<HostContext> record_of(const HostContext*) {
  return Record<HostContext>("a host")
      .open()
      .field("name", &HostContext::name, {.promised = true})
      .field("ranks", &HostContext::ranks, {.promised = true})
      .field("cpu", &HostContext::cpu, {.promised = true})
      .field("gpus", &HostContext::gpus, "of the machine: \"8 x NVIDIA H100 80GB HBM3\"; empty: none",
             {.promised = true});
}

Record<SustainedContext> record_of(const SustainedContext*) {
  using S = SustainedContext;
  return Record<S>("a sustained product")
      .open()
      .field("dtype", &S::dtype, {.promised = true})
      .field("gpu", &S::gpu, "false: of a CPU", {.promised = true})
      .field("shape", &S::shape, "m, k, n of (m, k) times (k, n)", {.promised = true})
      .field("flops_per_second", &S::flops_per_second,
             {.promised = true, .schema = {{"exclusiveMinimum", 0}}})
      .field("seconds", &S::seconds, {.promised = true})
      .field("watts", &S::watts, "energy by NVML divided by time", {.nullable = true})
      .field("sm_clock_mhz", &S::sm_clock_mhz, "mean of samples", {.nullable = true})
      .field("power_limit_watts", &S::power_limit_watts, {.nullable = true})
      .field("at_power_cap", &S::at_power_cap,
             "share of the samples in which the power limit lowered the clock, 0 to 1", {.nullable = true});
}

Record<PeakContext> record_of(const PeakContext*) {
  return Record<PeakContext>("the peak")
      .open()
      .field("device", &PeakContext::device, {.promised = true})
      .field("dtype_flops", &PeakContext::dtype_flops, "measured FLOP/s of the fastest square matmul",
             {.promised = true})
      .field("source", &PeakContext::source, {.promised = true, .schema = {{"enum", {"measured", "table"}}}})
      .field("mfu_dtype", &PeakContext::mfu_dtype, {.promised = true})
      .field("mfu_denominator", &PeakContext::mfu_denominator,
             "table: the maker's dense bf16 FLOP/s; measured: the larger of fp32 and bf16",
             {.promised = true, .schema = {{"exclusiveMinimum", 0}}})
      .field("sustained", &PeakContext::sustained,
             "matrix products repeated for seconds; absent: a build that did not measure them");
}

Record<PluginContext> record_of(const PluginContext*) {
  return Record<PluginContext>("a plugin")
      .open()
      .field("name", &PluginContext::name, {.promised = true})
      .field("file", &PluginContext::file, {.promised = true})
      .field("summary", &PluginContext::summary, {.promised = true})
      .field("reason", &PluginContext::reason, "why the plugin does not work here; empty: it works",
             {.promised = true});
}

Record<PythonContext> record_of(const PythonContext*) {
  return Record<PythonContext>("Python")
      .open()
      .field("path", &PythonContext::path, {.promised = true})
      .field("version", &PythonContext::version, {.promised = true})
      .field("torch", &PythonContext::torch, {.promised = true})
      .field("vl_convert", &PythonContext::vl_convert, {.promised = true})
      .field("no_compile", &PythonContext::no_compile, "why blocks cannot be compiled; empty: they can",
             {.promised = true});
}

Record<Context> record_of(const Context*) {
  return Record<Context>("the context",
                         "The machine and the software that a report was made with. `optrush doctor --json` "
                         "writes it; an experiment adds date, commit and script.")
      .open()
      .field("date", &Context::date)
      .field("commit", &Context::commit)
      .field("script", &Context::script)
      .field("script_sha256", &Context::script_sha256)
      .field("optrush_version", &Context::optrush_version, {.promised = true})
      .field("host", &Context::host, {.promised = true})
      .field("hosts", &Context::hosts, "machines of a launcher's job, ordered by their lowest rank")
      .field("os", &Context::os, {.promised = true})
      .field("kernel", &Context::kernel, {.promised = true})
      .field("cpu", &Context::cpu, {.promised = true})
      .field("gpus", &Context::gpus, {.promised = true})
      .field("no_cuda", &Context::no_cuda, "why no GPU is usable", {.nullable = true})
      .field("torch", &Context::torch, "version that the program was built for", {.promised = true})
      .field("torch_found", &Context::torch_found,
             "version of the LibTorch that was loaded, from its headers")
      .field("cuda", &Context::cuda, "CUDA version of LibTorch; none: a CPU build", {.promised = true})
      .field("nccl", &Context::nccl, {.promised = true, .nullable = true})
      .field("compiler", &Context::compiler, {.promised = true})
      .field("build_type", &Context::build_type)
      .field("torch_cpu_capability", &Context::torch_cpu_capability)
      .field("mkl", &Context::mkl)
      .field("onednn", &Context::onednn)
      .field("openmp", &Context::openmp)
      .field("malloc", &Context::malloc, {.promised = true})
      .field("threads", &Context::threads, "CPU threads per operator during the measurement",
             {.promised = true, .schema = {{"minimum", 1}}})
      .field("probe_s", &Context::probe_s, "seconds of the speed measurement",
             {.schema = {{"exclusiveMinimum", 0}}})
      .field("peak", &Context::peak, {.promised = true})
      .field("bandwidth_bytes_per_second", &Context::bandwidth_bytes_per_second,
             "the higher of copy and triad", {.promised = true, .schema = {{"exclusiveMinimum", 0}}})
      .field("streams_bytes_per_second", &Context::streams_bytes_per_second,
             "read, write, copy, triad; each byte read or written counts once")
      .field("plugins", &Context::plugins, {.promised = true})
      .field("python", &Context::python, {.promised = true})
      .field("warnings", &Context::warnings, "reasons to doubt these measurements", {.promised = true})
      .field("doctor", &Context::doctor, "why the inspection of the machine failed; absent: it succeeded");
}

Context context_from_json(const Json& json, const std::string& where) {
  const bool known = json.is_object() && (json.contains("date") || json.contains("host"));
  if (!known)
    throw Error(ErrorCode::invalid_file, "is not a description of a machine",
                "restore it, or remove it and recreate it with --resume", where);
  return fields_of<Context>().read(json, where);
}
}  // namespace optrush
