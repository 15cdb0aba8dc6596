#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace optrush {
// Reading and writing of files that are too large for memory.

using Sink = std::function<void(std::string_view)>;
/// write_file() of the content that `make` passes to the sink in pieces.
void write_pieces(const std::filesystem::path&, const std::function<void(const Sink&)>& make);
/// Reads `size` bytes from `offset` on; throws an Error if the file is shorter.
std::string read_part(const std::filesystem::path&, size_t offset, size_t size);
}  // namespace optrush
