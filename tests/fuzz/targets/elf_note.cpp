// A plugin file: the note of a shared object and its description, read without loading the file.
#include "plugin/elf_note.h"

#include <algorithm>
#include <sstream>

#include "plugin/description.h"
#include "target.h"

FUZZ_TARGET(elf_note) {
  using namespace optrush;
  std::istringstream file(fuzz::text_of(data, size));
  fuzz::feed([&] {
    const PluginDescription plugin = parse_description(read_elf_note(file, "x.so"), "x.so");
    fuzz::hold(!plugin.name.empty(), "a plugin has a name");
    const bool complete = std::ranges::none_of(
        plugin.options, [](const OptionSchema& option) { return option.fallback.is_null(); });
    if (complete)
      fuzz::hold(plugin.effect_with(Json::object()) >= plugin.effect, "options never narrow an effect");
    fuzz::feed([&] { check_compatible(plugin); });
  });
  return 0;
}
