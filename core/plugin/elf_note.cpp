#include "plugin/elf_note.h"

#include <elf.h>

#include <cstring>
#include <vector>

#include "optrush/error.h"

namespace optrush {
namespace {
constexpr char kSection[] = ".note.optrush";
constexpr char kOwner[] = "optrush";  // the terminating zero is part of the note's name
constexpr uint32_t kType = 1;
constexpr uint64_t kMostBytes =
    1 << 20;  // limit for descriptions and name tables, because a damaged size must not use up memory
#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#endif

/// A file of known size with checked reads.
class Bytes {
 public:
  Bytes(std::istream& in, std::string origin) : in_(in), origin_(std::move(origin)) {
    in_.seekg(0, std::ios::end);
    size_ = in_ ? static_cast<uint64_t>(in_.tellg()) : 0;
  }
  std::string at(uint64_t offset, uint64_t count) const {
    if (offset > size_ || count > size_ - offset)
      throw Error(ErrorCode::invalid_plugin,
                  "truncated: a part at byte " + std::to_string(offset) + " ends after the file's " +
                      std::to_string(size_) + " bytes",
                  "copy the file again, or rebuild it", origin_);
    std::string bytes(count, '\0');
    in_.seekg(static_cast<std::streamoff>(offset));
    if (!in_.read(bytes.data(), static_cast<std::streamsize>(count)))
      throw Error(ErrorCode::invalid_plugin, "cannot be read", {}, origin_);
    return bytes;
  }
  uint64_t size() const { return size_; }

 private:
  std::istream& in_;
  std::string origin_;
  uint64_t size_ = 0;
};

/// The structure at `offset`. The caller ensures that it is inside the file.
template <class T>
T structure(const std::string& bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

Elf64_Ehdr header(const Bytes& file, const std::string& origin) {
  const auto refuse = [&](const std::string& what) {
    return Error(ErrorCode::invalid_plugin, what, "a plugin is a shared object made by optrush_add_plugin()",
                 origin);
  };
  if (file.size() < SELFMAG || file.at(0, SELFMAG) != ELFMAG) throw refuse("not an ELF file");
  const auto elf = structure<Elf64_Ehdr>(file.at(0, sizeof(Elf64_Ehdr)), 0);
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_ident[EI_DATA] != ELFDATA2LSB || elf.e_machine != kMachine)
    throw refuse("built for another machine (ELF machine " + std::to_string(elf.e_machine) +
                 ", this one is " + std::to_string(kMachine) + ")");
  if (elf.e_type != ET_DYN) throw refuse("not a shared object");
  if (elf.e_shoff == 0 || elf.e_shentsize != sizeof(Elf64_Shdr) || elf.e_shstrndx >= elf.e_shnum)
    throw refuse("has no section table, so it cannot be identified");
  return elf;
}

/// The content of section .note.optrush; empty if there is none.
std::string note_section(const Bytes& file, const std::string& origin) {
  const Elf64_Ehdr elf = header(file, origin);
  const std::string table = file.at(elf.e_shoff, uint64_t{elf.e_shnum} * sizeof(Elf64_Shdr));
  const auto section = [&](uint64_t i) { return structure<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr)); };
  const auto content = [&](const Elf64_Shdr& s) {
    if (s.sh_size > kMostBytes)
      throw Error(ErrorCode::invalid_plugin, "damaged: a section of " + std::to_string(s.sh_size) + " bytes",
                  {}, origin);
    return file.at(s.sh_offset, s.sh_size);
  };
  const std::string names = content(section(elf.e_shstrndx));
  for (uint64_t i = 0; i < elf.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    if (s.sh_name < names.size() && std::string(names.c_str() + s.sh_name) == kSection) return content(s);
  }
  return {};
}
}  // namespace

std::string read_elf_note(std::istream& in, const std::string& origin) {
  const std::string section = note_section(Bytes(in, origin), origin);
  std::vector<std::string> texts;
  const auto aligned = [](uint64_t size) { return (size + 3) / 4 * 4; };
  for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= section.size();) {
    const auto note = structure<Elf64_Nhdr>(section, at);
    const uint64_t name = at + sizeof(note), text = name + aligned(note.n_namesz), end = text + note.n_descsz;
    if (text > section.size() || end > section.size())
      throw Error(ErrorCode::invalid_plugin,
                  "damaged: its note extends beyond section " + std::string(kSection), "rebuild the plugin",
                  origin);
    const bool ours =
        section.compare(name, note.n_namesz, kOwner, sizeof(kOwner)) == 0 && note.n_type == kType;
    if (ours) texts.push_back(section.substr(text, note.n_descsz));
    at = aligned(end);
  }
  if (texts.empty())
    throw Error(ErrorCode::invalid_plugin,
                "no note in section " + std::string(kSection) + ": not a plugin of Optimization Rush",
                "end the source with OPTRUSH_PLUGIN(Class, R\"json({...})json\") and build it with "
                "optrush_add_plugin()",
                origin);
  if (texts.size() > 1)
    throw Error(ErrorCode::invalid_plugin, "describes " + std::to_string(texts.size()) + " plugins",
                "build each plugin into a separate file", origin);
  std::string text = texts.front();
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}
}  // namespace optrush
