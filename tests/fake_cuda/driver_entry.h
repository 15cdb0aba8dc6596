#pragma once
namespace fake_cuda {
/// The driver's function by its name, of its newest version that this library has; null where it has none.
void* driver_entry(const char* name);
}  // namespace fake_cuda
