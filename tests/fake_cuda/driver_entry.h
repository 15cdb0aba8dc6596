#pragma once
namespace fake_cuda {
/// The driver's function by its name, in the newest version of this library. Null if there is none.
void* driver_entry(const char* name);
}  // namespace fake_cuda
