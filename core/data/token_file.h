#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

#include "data/token_source.h"
#include "data/windows.h"
#include "io/mapped_file.h"

namespace optrush {
/// A token file, little endian: a header of 32 bytes, then `count` tokens.
///   0  char[8]  "ORTOKENS"
///   8  uint32   version, 1
///  12  uint32   bytes of one token: 2 (uint16) or 4 (uint32)
///  16  uint32   vocabulary: every token is below it
///  20  uint32   0
///  24  uint64   count
struct TokenFileHeader {
  char magic[8] = {'O', 'R', 'T', 'O', 'K', 'E', 'N', 'S'};
  uint32_t version = 1, token_bytes = 2, vocab_size = 0, reserved = 0;
  uint64_t count = 0;
};
static_assert(sizeof(TokenFileHeader) == 32);

/// Samples of a mapped token file.
class TokenFileSource final : public TokenSource {
 public:
  TokenFileSource(const std::filesystem::path&, uint64_t seed, int64_t sample_length,
                  const Share& share = {});

  int64_t vocab_size() const override { return header_.vocab_size; }
  int64_t count() const override { return windows_.count(); }
  void sample(int64_t index, std::span<int64_t> tokens) const override;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  TokenFileHeader header_;
  Windows windows_;
};
}  // namespace optrush
