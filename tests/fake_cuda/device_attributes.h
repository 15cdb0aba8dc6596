#pragma once
namespace fake_cuda {
/// Attributes of the architecture in the settings. cudaDeviceAttr and CUdevice_attribute have equal numbers.
int device_attribute(int attribute);
}  // namespace fake_cuda
