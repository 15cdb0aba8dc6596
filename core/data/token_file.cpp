#include "data/token_file.h"

#include <bit>
#include <cstring>
#include <string>

#include "optrush/error.h"

namespace optrush {
namespace {
static_assert(std::endian::native == std::endian::little, "token files are little endian");

TokenFileHeader header_of(std::span<const std::byte> bytes, const std::string& name) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_file, "'" + name + "' " + what,
                "write it as docs/reference/formats.md describes");
  };
  TokenFileHeader header;
  const TokenFileHeader expected;
  if (bytes.size() < sizeof header) fail("is not a token file: it is shorter than the header of 32 bytes");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0)
    fail("is not a token file: it does not begin with 'ORTOKENS'");
  if (header.version != expected.version)
    fail("has version " + std::to_string(header.version) + " of the format; this program reads version 1");
  if (header.token_bytes != 2 && header.token_bytes != 4)
    fail("has tokens of " + std::to_string(header.token_bytes) + " bytes; it must be 2 or 4");
  if (header.vocab_size == 0) fail("has a vocab_size of 0");
  const uint64_t space = bytes.size() - sizeof header;
  if (header.count != space / header.token_bytes || space % header.token_bytes != 0)
    fail("should have " + std::to_string(header.count) + " tokens of " + std::to_string(header.token_bytes) +
         " bytes, but " + std::to_string(space) + " bytes follow the header");
  return header;
}

template <class T>
void copy(const std::byte* from, std::span<int64_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    tokens[i] = value;
  }
}
}  // namespace

TokenFileSource::TokenFileSource(const std::filesystem::path& path, uint64_t seed, int64_t sample_length,
                                 const Share& share)
    : path_(path),
      file_(path),
      header_(header_of(file_.bytes(), path.string())),
      windows_(static_cast<int64_t>(header_.count), sample_length, seed, "'" + path.string() + "'", share) {}

void TokenFileSource::sample(int64_t index, std::span<int64_t> tokens) const {
  const int64_t begin = windows_.begin(index);
  const std::byte* const from =
      file_.bytes().data() + sizeof header_ + static_cast<size_t>(begin) * header_.token_bytes;
  header_.token_bytes == 2 ? copy<uint16_t>(from, tokens) : copy<uint32_t>(from, tokens);
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] >= header_.vocab_size)
      throw Error(ErrorCode::invalid_file,
                  "'" + path_.string() + "' has token " + std::to_string(tokens[i]) + " at position " +
                      std::to_string(begin + static_cast<int64_t>(i)) +
                      ", but the vocab_size of its header is " + std::to_string(header_.vocab_size),
                  "write the file again with the vocab_size of the tokenizer");
}
}  // namespace optrush
