#pragma once
#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// Whether something has this name, be it only a link that leads nowhere.
bool is_there(const std::filesystem::path&);
/// The whole file; an Error names the path where it can't be read, is no regular file, or has more than 1
/// GiB.
std::string read_file(const std::filesystem::path&);
/// The rest of a stream, up to a failing read, as in a file of /proc whose process ends. Iterators over a
/// stream's buffer throw there.
std::string rest_of(std::istream&);
/// Writes through `path`.PID.tmp, fsync and rename: readers see the old file or the new one, never a part. A
/// device or pipe, such as /dev/stdout, is written into.
void write_file(const std::filesystem::path&, std::string_view content);
/// The same for content in pieces: what is large need not be joined first.
void write_file(const std::filesystem::path&, const std::vector<std::string_view>& pieces);
/// Removes from a folder what writers that were killed have left of write_file().
void remove_unfinished(const std::filesystem::path& folder);
/// Appends one line and flushes it to the kernel: journals outlive the process that writes them.
void append_line(const std::filesystem::path&, std::string_view line);
/// Ends a last line that a kill cut off, so that the next one stands alone. Without a file nothing happens.
void close_torn_line(const std::filesystem::path&);
/// Parses JSON that may come from anywhere: duplicate keys and nesting deeper than 64 are errors; `origin` is
/// named.
Json parse_json(std::string_view text, const std::string& origin);
/// Of a file that this project wrote: the cure is to restore it.
Json parse_stored(std::string_view text, const std::string& origin);
Json read_json(const std::filesystem::path&);
/// The objects of a file that grows line by line; none where there is no file. A line that a kill cut off is
/// passed over.
std::vector<Json> read_json_lines(const std::filesystem::path&);
/// Indented, ASCII-safe, ending in a newline. Not finite numbers become null.
std::string json_text(const Json&);
/// json_text() by temporary file and rename.
void write_json(const std::filesystem::path&, const Json&);
/// Lower-case hexadecimal SHA-256.
std::string sha256(std::string_view bytes);
std::string sha256_file(const std::filesystem::path&);
}  // namespace optrush
