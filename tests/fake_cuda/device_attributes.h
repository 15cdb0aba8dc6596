#pragma once
namespace fake_cuda {
/// Of the architecture that the settings name; the numbers of cudaDeviceAttr and CUdevice_attribute are the
/// same.
int device_attribute(int attribute);
}  // namespace fake_cuda
