#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace fake_cuda {
inline constexpr const char* kDeviceName = "FAKE (nothing is computed)";

/// Limits of one architecture, as the CUDA programming guide lists them.
struct Architecture {
  int major, minor;
  int multiprocessors;
  int shared_per_multiprocessor;  ///< bytes
  int shared_per_block;           ///< largest bytes with opt-in
  int l2_bytes;
  size_t memory_bytes;  ///< reported memory of a card of 80 GB (sm_80, sm_90) or 192 GB (sm_100)
};

/// Read once from the environment. An invalid value ends the process with a list of valid values.
struct Settings {
  Architecture architecture;  ///< FAKE_CUDA_ARCH: sm_80, sm_90 (default), sm_100
  size_t memory_bytes;        ///< FAKE_CUDA_MEMORY, of each device; default: the architecture's
  int devices = 1;            ///< FAKE_CUDA_DEVICES: 1 to 8
  size_t kept_bytes = 0;      ///< FAKE_CUDA_KEEP: larger copies from the host are counted and not kept
  float unknown = 1;          ///< FAKE_CUDA_UNKNOWN: the value of memory that a kernel wrote
  std::string driver;         ///< FAKE_CUDA_DRIVER: what NVML reports; default "none (fake_cuda)"
  std::string report, trace;  ///< FAKE_CUDA_REPORT, FAKE_CUDA_TRACE: files; empty: none
  std::string nccl;           ///< FAKE_CUDA_NCCL: the shared log of the ranks' calls
  int nccl_seconds = 120;     ///< FAKE_CUDA_NCCL_SECONDS: a later rank counts as missing
  int watts = 0;              ///< FAKE_CUDA_WATTS: power of each device by NVML; 0: NVML does not report it
  bool strict = true;         ///< FAKE_CUDA_STRICT=0: a process with faults keeps its exit code

  static const Settings& get();
  static bool in_use();  ///< whether get() was called
};
}  // namespace fake_cuda
