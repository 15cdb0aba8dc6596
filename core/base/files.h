#pragma once
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// Whether this path exists. A broken link also exists.
bool is_there(const std::filesystem::path&);
/// Reads a whole file. Throws an Error with the path if it can't be read, is not a regular file, or has more
/// than 1 GiB.
std::string read_file(const std::filesystem::path&);
/// The rest of a stream, up to the first failing read. For files of /proc, whose process may end: iterators
/// over the stream's buffer would throw there.
std::string rest_of(std::istream&);
/// Writes `path`.PID.tmp, calls fsync and renames it: readers see the old file or the new one, never a part.
/// A device or pipe, such as /dev/stdout, is written directly.
void write_file(const std::filesystem::path&, std::string_view content);
/// The same for content in several pieces, which need not be joined first.
void write_file(const std::filesystem::path&, const std::vector<std::string_view>& pieces);
using Sink = std::function<void(std::string_view)>;
/// write_file() of the content that `make` passes to the sink in pieces, for files larger than memory.
void write_pieces(const std::filesystem::path&, const std::function<void(const Sink&)>& make);
/// Removes temporary files that killed processes left in a folder when they wrote files of these names.
void remove_unfinished(const std::filesystem::path& folder, const std::vector<std::string>& names);
/// Calls fsync for a folder: the files that were written, renamed or removed there stay so after a loss of
/// power.
void sync_folder(const std::filesystem::path&);
/// Appends one line and flushes it to the kernel, so it survives the end of this process.
void append_line(const std::filesystem::path&, std::string_view line);
/// Completes a last line that a killed process left without an end, so that the next line starts anew. Does
/// nothing without a file.
void close_torn_line(const std::filesystem::path&);
/// Takes the objects of a long list, a member of a document, one by one. The document does not keep them.
struct ItemReader {
  std::string_view list;  ///< name of the member
  std::function<void(Json)> take;
};
/// Parses JSON from any source. Duplicate keys and nesting deeper than 64 are errors. Errors name `origin`.
Json parse_json(std::string_view text, const std::string& origin, const ItemReader& items = {});
/// The same for a file that this program wrote; the remedy of its errors is to restore the file.
Json parse_stored(std::string_view text, const std::string& origin);
Json read_json(const std::filesystem::path&);
/// The objects of a file with one JSON object per line; none if there is no file. Ignores a last line that is
/// incomplete.
std::vector<Json> read_json_lines(const std::filesystem::path&);
/// Indented JSON in ASCII with a final newline. Numbers that are not finite become null.
std::string json_text(const Json&);
/// Writes json_text() with write_file().
void write_json(const std::filesystem::path&, const Json&);
/// Lower-case hexadecimal SHA-256.
std::string sha256(std::string_view bytes);
std::string sha256_file(const std::filesystem::path&);
}  // namespace optrush
