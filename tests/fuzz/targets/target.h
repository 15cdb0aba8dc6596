// What the targets share. Each is one reader: FUZZ_TARGET(NAME) is given the bytes of a file, a message or an
// argument, reads them as the program does and holds against the value what has to be true of it.
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

/// Begins the function of a target. A program of libFuzzer has one target; one that replays has many and
/// knows them by name.
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

/// How the inputs of this process ended: in a value, or in an Error.
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

/// Something that is true of every input is not of this one.
[[noreturn]] inline void fail(const std::string& what) {
  std::cerr << "fuzz: " << what << std::endl;
  std::abort();
}
inline void hold(bool truth, const std::string& what) {
  if (!truth) fail(what);
}

/// Runs `read`, which gives a value or throws an Error. Whatever else it throws ends the process.
template <class Read>
void feed(const Read& read) {
  try {
    read();
    ++outcomes().accepted;
  } catch (const Error&) {
    ++outcomes().refused;
  }
}

/// A document: `read` gives what is written of its value. That has to be read again, as the same.
template <class Read>
void feed_document(const std::string& text, const Read& read) {
  std::optional<Json> once;
  feed([&] { once = read(parse_json(text, "input")); });
  if (!once) return;
  const std::string first = json_text(*once);
  try {
    const std::string second = json_text(read(parse_json(first, "what was written")));
    hold(second == first, "what was written is read as another value:\n" + first + "\n" + second);
  } catch (const Error& e) {
    fail(std::string("what was written is refused: ") + e.what() + "\n" + first);
  }
}

/// Files for readers that take paths. The folder is that of TMPDIR: one in memory makes a campaign faster.
class Files {
 public:
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  const std::filesystem::path& path() const { return folder_.path(); }
  /// Without fsync, unlike write_file(): there are thousands of them a second.
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << content;
  }

 private:
  TemporaryFolder folder_;
};
}  // namespace optrush::fuzz
