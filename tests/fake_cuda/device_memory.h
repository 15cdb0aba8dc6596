// Memory of the devices: addresses in a range that the host can't touch. A shadow at a fixed distance holds
// what copies and memsets write, until a kernel may have written there.
#pragma once
#include <cstddef>
#include <cstdint>

namespace fake_cuda {
struct Allocation {
  uint64_t address = 0;
  size_t bytes = 0;
  explicit operator bool() const { return address != 0; }
};

/// 0: out of memory. Bytes are rounded up to 2 MiB, as the driver does.
uint64_t allocate(int device, size_t bytes);
bool release(uint64_t address);
/// -1: no address of a device.
int device_of(uint64_t address);
inline int device_of(const void* p) { return device_of(reinterpret_cast<uint64_t>(p)); }
/// The live allocation, or the mapped range, that holds the address, or none.
Allocation allocation_at(uint64_t address);

struct MemoryInfo {
  size_t free = 0, total = 0;
};
MemoryInfo memory_info(int device);
size_t peak_bytes();  ///< of all devices

/// Expandable segments: addresses, bytes and their meeting are three calls.
uint64_t reserve_addresses(int device, size_t bytes);
bool take_bytes(int device, size_t bytes);
void give_bytes(int device, size_t bytes);
void map_range(uint64_t address, size_t bytes);
void unmap_range(uint64_t address, size_t bytes);

/// Write to and read from the shadow; large blocks are counted and not copied.
void write_shadow(uint64_t to, const void* from, size_t bytes);
void fill_shadow(uint64_t to, uint32_t value, size_t width, size_t count);
void copy_shadow(uint64_t to, uint64_t from, size_t bytes);
/// What a kernel may have written reads as FAKE_CUDA_UNKNOWN, a little different at each read.
void read_shadow(void* to, uint64_t from, size_t bytes);
/// False: not all of it is known.
bool read_known(void* to, uint64_t from, size_t bytes);
/// Something is written there that is unknown.
void forget(uint64_t from, size_t bytes);
/// A kernel ran: what memory holds is unknown.
void forget_values();
}  // namespace fake_cuda
