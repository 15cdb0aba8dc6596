#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace optrush {
// For files that are too large to be held whole.

using Sink = std::function<void(std::string_view)>;
/// write_file() of what `make` gives to the sink, piece by piece.
void write_pieces(const std::filesystem::path&, const std::function<void(const Sink&)>& make);
/// `size` bytes from `offset` on; an Error where the file has fewer.
std::string read_part(const std::filesystem::path&, size_t offset, size_t size);
}  // namespace optrush
