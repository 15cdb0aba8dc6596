#include "authoring/new_plugin.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "build_info.h"
#include "machine/installation.h"
#include "new_folder.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr std::size_t kLongestName = 40;
constexpr std::array kTargetsOfCMake = {"all", "clean", "help", "install", "package", "test"};

/// The README's text about the GPU kernel.
constexpr const char* kOfTheKernel =
    "`src/@name@.cu` holds its GPU kernels, which are\ncompiled for the present GPU at their first launch; "
    "`test/kernels.cpp` compiles them for three architectures without a GPU.\n";
/// The README's text about the optimizer.
constexpr const char* kOfTheOptimizer =
    "It replaces AdamW, on any number of ranks and with every plugin that shards parameters. Its state is "
    "saved with\nthem. The ladder measures which learning rate reaches a loss first; "
    "`experiments/time_to_loss.lua` does the same for AdamW and Muon.\n";

}  // namespace

std::string camel_case(std::string_view name) {
  std::string text;
  bool start = true;
  for (const char c : name) {
    if (c != '_') text += start && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    start = c == '_';
  }
  return text;
}

void check_plugin_name(const std::string& name) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  const bool begins_with_letter = !name.empty() && name[0] >= 'a' && name[0] <= 'z';
  if (!begins_with_letter || name.size() > kLongestName || !std::ranges::all_of(name, allowed)) {
    throw UsageError(
        ErrorCode::invalid_value, "'" + name + "' is not a valid plugin name",
        "start with a lower-case letter; use lower-case letters, digits and underscores, at most " +
            std::to_string(kLongestName) + " characters, for example wide_swiglu");
  }
  if (std::ranges::find(kTargetsOfCMake, name) != kTargetsOfCMake.end()) {
    throw UsageError(ErrorCode::invalid_value,
                     "'" + name + "' is not a valid plugin name: CMake has a target of this name",
                     "choose another name, for example my_" + name);
  }
}

void write_new_plugin(const std::string& name, const fs::path& folder, NewPlugin example) {
  const bool kernel = example == NewPlugin::kernel, optimizer = example == NewPlugin::optimizer;
  check_plugin_name(name);
  if (fs::exists(folder)) {
    throw UsageError(ErrorCode::conflict, "'" + folder.string() + "' exists already",
                     "name another folder with --dir");
  }
  NewFolder made(folder);
  const std::vector<std::pair<std::string, std::string>> values = {{"@kernel@", kernel      ? kOfTheKernel
                                                                                : optimizer ? kOfTheOptimizer
                                                                                            : ""},
                                                                   {"@name@", name},
                                                                   {"@class@", camel_case(name)},
                                                                   {"@version@", OPTRUSH_VERSION}};
  const fs::path templates = Installation::of_this_program().scripts / "new_plugin";
  const auto write = [&](const fs::path& file, const std::string& from) {
    write_file(made.path() / file, filled_in(read_file(templates / (from + ".in")), values));
  };
  const std::string kind = kernel ? "kernel_" : optimizer ? "optimizer_" : "";
  const std::string source = "src/" + name;
  write("CMakeLists.txt", kernel ? "kernel_CMakeLists.txt" : "CMakeLists.txt");
  write(source + ".cpp", kind + "plugin.cpp");
  write("test/ladder.lua", kind + "ladder.lua");
  write("README.md", "README.md");
  if (kernel) {
    write(source + ".cu", "kernel.cu");
    write("test/kernels.cpp", "kernel_test.cpp");
  }
  made.put_in_place();
}
}  // namespace optrush
