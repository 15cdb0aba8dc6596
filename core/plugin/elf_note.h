#pragma once
#include <istream>
#include <string>

namespace optrush {
/// The text of the note of owner "optrush" in section .note.optrush of a 64-bit shared object. Nothing is
/// loaded or run, and every offset is checked, so any file is safe. Errors name `origin`.
std::string read_elf_note(std::istream& file, const std::string& origin);
}  // namespace optrush
