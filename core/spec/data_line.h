#pragma once
#include <filesystem>
#include <string>

#include "optrush/json.h"

namespace optrush {
/// Whether a line of data is a chat: a list of messages, to which the model's chat template is applied.
bool is_chat(const Json& line);

/// The first JSON value of a file with one object per line, or the first one of its JSON array. Null if it
/// cannot be parsed; readers of the whole file name the reason.
Json first_data_line(const std::filesystem::path&);

/// Throws an Error if the file has the form of another program (Parquet, CSV, an archive), or if its first
/// line is a document for `preferences` or a pair of answers for `documents`. `kind`: of a DataSpec.
void check_lines(const std::filesystem::path&, const std::string& kind, const std::string& where);
}  // namespace optrush
