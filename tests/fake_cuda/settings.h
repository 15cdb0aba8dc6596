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
  int shared_per_block;           ///< bytes, at most, for a kernel that asks (opt-in)
  int l2_bytes;
  size_t memory_bytes;  ///< what a card of 80 GB (sm_80, sm_90) or 192 GB (sm_100) reports
};

/// Read once from the environment; a wrong value ends the process with the allowed ones.
struct Settings {
  Architecture architecture;  ///< FAKE_CUDA_ARCH: sm_80, sm_90 (standard), sm_100
  size_t memory_bytes;        ///< FAKE_CUDA_MEMORY, of each device; standard: the architecture's
  int devices = 1;            ///< FAKE_CUDA_DEVICES: 1 to 8
  size_t kept_bytes = 0;      ///< FAKE_CUDA_KEEP: larger copies from the host are counted and not kept
  float unknown = 1;          ///< FAKE_CUDA_UNKNOWN: what memory that a kernel wrote reads as
  std::string report, trace;  ///< FAKE_CUDA_REPORT, FAKE_CUDA_TRACE: files, empty for none
  std::string nccl;           ///< FAKE_CUDA_NCCL: the file in which ranks say what they call
  int nccl_seconds = 120;     ///< FAKE_CUDA_NCCL_SECONDS: a rank that comes later does not come
  bool strict = true;         ///< FAKE_CUDA_STRICT=0: a process with faults keeps its exit code

  static const Settings& get();
  static bool in_use();  ///< get() was called: something used the stand-in
};
}  // namespace fake_cuda
