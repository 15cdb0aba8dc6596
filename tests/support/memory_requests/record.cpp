// The functions that code compiled with -fsanitize=thread calls, in place of the runtime of ThreadSanitizer:
// they record where a kernel reads and writes. This file is compiled without the option.
#include "support/memory_requests/record.h"

#include "support/cuda_on_threads.h"

namespace optrush::testing {
namespace {
thread_local ThreadRecord* recording = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// Nothing is recorded in its lifetime. The linker may have chosen the recorded copy of std::vector's
/// functions.
class Pause {
 public:
  Pause() : record(recording) { recording = nullptr; }
  ~Pause() { recording = record; }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
  ThreadRecord* const record;
};

uint64_t joined(uint64_t path, uint64_t place) { return (path ^ place) * 0x9E3779B97F4A7C15U + (path >> 29); }

void note(const volatile void* address, uint32_t bytes, AccessKind kind, const void* place) {
  if (recording == nullptr || waits) return;
  const Pause pause;
  ThreadRecord& record = *pause.record;
  record.accesses.push_back({joined(record.path, reinterpret_cast<uintptr_t>(place)),
                             reinterpret_cast<uintptr_t>(address), bytes, blockIdx.x, kind});
}

/// A type of several words that is aligned to one: a GPU moves the words one after the other.
void note_words(const void* address, size_t bytes, AccessKind kind, const char* place) {
  const auto* begin = static_cast<const char*>(address);
  const size_t word = bytes % 4 == 0 ? 4 : 1;
  for (size_t at = 0; at < bytes; at += word) note(begin + at, static_cast<uint32_t>(word), kind, place + at);
}
}  // namespace

void record_into(ThreadRecord* record) { recording = record; }
}  // namespace optrush::testing

using optrush::testing::AccessKind;
using optrush::testing::note;
using optrush::testing::note_words;

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming): GCC's
// names. NOLINTBEGIN(cppcoreguidelines-macro-usage,bugprone-macro-parentheses): one set of functions for each
// size.
#define PLACE static_cast<const char*>(__builtin_return_address(0))
#define ACCESS(bytes)                                                                       \
  void __tsan_read##bytes(void* address) { note(address, bytes, AccessKind::read, PLACE); } \
  void __tsan_write##bytes(void* address) { note(address, bytes, AccessKind::write, PLACE); }
#define ADDS(bits, Number, operation)                                                      \
  Number __tsan_atomic##bits##_fetch_##operation(volatile Number* at, Number value, int) { \
    return __atomic_fetch_##operation(at, value, __ATOMIC_SEQ_CST);                        \
  }
/// The load of an atomic operation (cuda_on_threads.h) stands for all of it.
#define ATOMIC(bits, Number)                                                                                \
  Number __tsan_atomic##bits##_load(const volatile Number* at, int) {                                       \
    note(at, sizeof(Number), AccessKind::atomic, PLACE);                                                    \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                         \
  void __tsan_atomic##bits##_store(volatile Number* at, Number value, int) {                                \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                         \
  Number __tsan_atomic##bits##_exchange(volatile Number* at, Number value, int) {                           \
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                                \
  }                                                                                                         \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile Number* at, Number* expected, Number to, int, \
                                                     int) {                                                 \
    return __atomic_compare_exchange_n(at, expected, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
  }                                                                                                         \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile Number* at, Number* expected, Number to, int,   \
                                                   int) {                                                   \
    return __atomic_compare_exchange_n(at, expected, to, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);         \
  }                                                                                                         \
  ADDS(bits, Number, add)                                                                                   \
  ADDS(bits, Number, sub) ADDS(bits, Number, and) ADDS(bits, Number, or) ADDS(bits, Number, xor)

extern "C" {
void __tsan_init() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
void __tsan_func_entry(void* caller) {
  using namespace optrush::testing;
  if (recording == nullptr) return;
  const Pause pause;
  ThreadRecord& record = *pause.record;
  record.callers.push_back(record.path);
  record.path = joined(record.path, reinterpret_cast<uintptr_t>(caller));
}
void __tsan_func_exit() {
  using namespace optrush::testing;
  if (recording == nullptr) return;
  const Pause pause;
  ThreadRecord& record = *pause.record;
  if (record.callers.empty()) return;  // of a function that was called before the record began
  record.path = record.callers.back();
  record.callers.pop_back();
}
void __tsan_read_range(void* address, size_t bytes) { note_words(address, bytes, AccessKind::read, PLACE); }
void __tsan_write_range(void* address, size_t bytes) { note_words(address, bytes, AccessKind::write, PLACE); }
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}
// clang-format off: one size a line
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
// clang-format on
}
// NOLINTEND(cppcoreguidelines-macro-usage,bugprone-macro-parentheses)
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
