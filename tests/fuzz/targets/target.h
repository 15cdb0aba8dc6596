// Shared code of the targets. Each target tests one reader: FUZZ_TARGET(NAME) gets the bytes of a file, a
// message or an argument, reads them as the program does, and checks invariants of the value.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "optrush/error.h"

/// Begins the function of a target. A libFuzzer program has one target. A replay program has many and finds
/// them by name.
#ifdef OPTRUSH_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
#define FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
#else
#define FUZZ_TARGET(name)                                                                          \
  static int fuzz_##name(const uint8_t* data, size_t size);                                        \
  static const bool name##_is_known = optrush::fuzz::targets().emplace(#name, fuzz_##name).second; \
  static int fuzz_##name(const uint8_t* data, size_t size)
#endif

namespace optrush::fuzz {
using Target = int (*)(const uint8_t* data, size_t size);
inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

/// Counts of inputs that gave a value and of inputs that gave an Error.
struct Outcomes {
  size_t accepted = 0, refused = 0;
};
inline Outcomes& outcomes() {
  static Outcomes all;
  return all;
}

inline std::string text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Reports a violated invariant and aborts.
[[noreturn]] inline void fail(const std::string& what) {
  std::cerr << "fuzz: " << what << std::endl;
  std::abort();
}
inline void hold(bool truth, const std::string& what) {
  if (!truth) fail(what);
}

/// Runs `read`, which returns a value or throws an Error. Any other exception ends the process.
template <class Read>
void feed(const Read& read) {
  try {
    read();
    ++outcomes().accepted;
  } catch (const Error&) {
    ++outcomes().refused;
  }
}

/// A document: `read` returns the written form of its value. Reading it again must give the same.
template <class Read>
void feed_document(const std::string& text, const Read& read) {
  std::optional<Json> once;
  feed([&] { once = read(parse_json(text, "input")); });
  if (!once) return;
  const std::string first = json_text(*once);
  try {
    const std::string second = json_text(read(parse_json(first, "the written form")));
    hold(second == first, "the written form is read as another value:\n" + first + "\n" + second);
  } catch (const Error& e) {
    fail(std::string("the written form is refused: ") + e.what() + "\n" + first);
  }
}

/// Files for readers that take paths. The folder is in TMPDIR. A folder in memory makes a campaign faster.
class Files {
 public:
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  const std::filesystem::path& path() const { return folder_.path(); }
  /// Without fsync, unlike write_file(), because there are thousands of files per second.
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << content;
  }

 private:
  TemporaryFolder folder_;
};
}  // namespace optrush::fuzz
