#pragma once
#include <filesystem>
#include <string>

namespace optrush {
/// The processors of a machine as the kernel and the driver name them, without loading CUDA.
struct HardwareNames {
  std::string cpu;   ///< "AMD EPYC 9654 96-Core Processor"; "": not known
  std::string gpus;  ///< "8 x NVIDIA H100 80GB HBM3", of the whole machine; "": none
  bool operator==(const HardwareNames&) const = default;
};
/// The names of this machine. `root`: root of the file system.
HardwareNames read_hardware_names(const std::filesystem::path& root = "/");
}  // namespace optrush
