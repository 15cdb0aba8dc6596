#include "described_plugins.h"

#include <elf.h>

#include "base/files.h"
#include "plugin/description.h"

namespace optrush::testing {
namespace {
template <class T>
std::string bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

/// A shared object with two sections: the note and the names.
std::string elf_with_note(std::string text) {
  const std::string names("\0.note.optrush\0", 15);
  text.resize((text.size() + 3) / 4 * 4);
  const Elf64_Nhdr note{.n_namesz = 8, .n_descsz = static_cast<Elf64_Word>(text.size()), .n_type = 1};
  const std::string section = bytes(note) + std::string("optrush\0", 8) + text;

  Elf64_Ehdr header{};
  header.e_ident[0] = ELFMAG0, header.e_ident[1] = ELFMAG1, header.e_ident[2] = ELFMAG2;
  header.e_ident[3] = ELFMAG3, header.e_ident[4] = ELFCLASS64, header.e_ident[5] = ELFDATA2LSB;
#if defined(__aarch64__)
  header.e_machine = EM_AARCH64;
#else
  header.e_machine = EM_X86_64;
#endif
  header.e_type = ET_DYN;
  header.e_shoff = sizeof(header);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  header.e_shstrndx = 1;

  const uint64_t content = sizeof(header) + 2 * sizeof(Elf64_Shdr);
  Elf64_Shdr of_note{}, of_names{};
  of_note.sh_name = 1;
  of_note.sh_offset = content;
  of_note.sh_size = section.size();
  of_names.sh_offset = content + section.size();
  of_names.sh_size = names.size();
  return bytes(header) + bytes(of_note) + bytes(of_names) + section + names;
}

Json described(const std::string& name, const std::string& effect, const std::string& options) {
  return {{"name", name},           {"version", "1.0"}, {"summary", "what " + name + " does"},
          {"kind", "optimization"}, {"effect", effect}, {"options", Json::parse(options)}};
}
}  // namespace

void write_described_plugins(const std::filesystem::path& folder) {
  std::vector<Json> all = {
      described(
          "mixed_precision", "precision",
          R"([{"name": "dtype", "type": "string", "default": "bf16", "choices": ["bf16", "fp16"], "doc": "of matmuls"}])"),
      described("fused_adamw", "rounding", "[]"),
      described("flash_attention", "rounding", "[]"),
      described(
          "activation_checkpointing", "exact",
          R"([{"name": "policy", "type": "string", "default": "full", "choices": ["full", "every"], "doc": "which"},
                    {"name": "every", "type": "integer", "default": 2, "min": 2, "max": 64, "doc": "n"}])"),
      described("lora", "model",
                R"([{"name": "rank", "type": "integer", "default": 8, "min": 1, "max": 4096, "doc": "rank"},
                    {"name": "alpha", "type": "number", "default": 16, "doc": "scale"},
                    {"name": "target_modules", "type": "list", "default": ["q_proj"], "doc": "targets"}])"),
      described("gradient_accumulation", "batch",
                R"([{"name": "steps", "type": "integer", "min": 2, "doc": "micro-batches"}])"),
      described("eight_bit", "precision", "[]"),
      described("grad_scaler", "exact", "[]"),
      described("freeze_blocks", "model",
                R"([{"name": "blocks", "type": "integer", "min": 1, "doc": "how many"}])"),
  };
  all[3]["check"] = Json::parse(R"([{}, {"options": {"policy": "every"}}])");
  all[6]["conflicts"] = {"fused_adamw"};
  all[7]["requires"] = {"mixed_precision"};
  const Json identity = {{"api", host_api()}, {"abi", host_abi()}};
  for (const auto& plugin : all)
    write_file(folder / (plugin["name"].get<std::string>() + ".so"),
               elf_with_note(identity.dump() + "\n" + plugin.dump()));
}
}  // namespace optrush::testing
