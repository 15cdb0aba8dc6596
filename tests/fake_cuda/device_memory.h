// Memory of the devices: addresses in a range that the host cannot access. A shadow at a fixed offset holds
// the bytes of copies and memsets, until a kernel may have written there.
#pragma once
#include <cstddef>
#include <cstdint>

namespace fake_cuda {
struct Allocation {
  uint64_t address = 0;
  size_t bytes = 0;
  explicit operator bool() const { return address != 0; }
};

/// Returns 0 if out of memory. Rounds bytes up to 2 MiB, as the driver does.
uint64_t allocate(int device, size_t bytes);
bool release(uint64_t address);
/// Returns -1 if the address is not on a device.
int device_of(uint64_t address);
inline int device_of(const void* p) { return device_of(reinterpret_cast<uint64_t>(p)); }
/// The live allocation or mapped range at the address, or none.
Allocation allocation_at(uint64_t address);

struct MemoryInfo {
  size_t free = 0, total = 0;
};
MemoryInfo memory_info(int device);
size_t peak_bytes();  ///< of all devices

/// Expandable segments: separate calls reserve addresses, take bytes and map them.
uint64_t reserve_addresses(int device, size_t bytes);
bool take_bytes(int device, size_t bytes);
void give_bytes(int device, size_t bytes);
void map_range(uint64_t address, size_t bytes);
void unmap_range(uint64_t address, size_t bytes);

/// Writes to and reads from the shadow. Large blocks are counted and not copied.
void write_shadow(uint64_t to, const void* from, size_t bytes);
void fill_shadow(uint64_t to, uint32_t value, size_t width, size_t count);
void copy_shadow(uint64_t to, uint64_t from, size_t bytes);
/// Unknown values read as FAKE_CUDA_UNKNOWN, slightly different at each read.
void read_shadow(void* to, uint64_t from, size_t bytes);
/// Returns false if a part is unknown.
bool read_known(void* to, uint64_t from, size_t bytes);
/// Marks a range as unknown.
void forget(uint64_t from, size_t bytes);
/// Marks all values as unknown, after a kernel.
void forget_values();
}  // namespace fake_cuda
