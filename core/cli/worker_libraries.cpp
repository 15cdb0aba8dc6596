#include "cli/worker_libraries.h"

#include <cstdlib>
#include <system_error>

#include "base/suggest.h"
#include "machine/installation.h"
#include "machine/torch_folder.h"

namespace optrush {
namespace fs = std::filesystem;

void let_workers_find_torch() {
  const Installation here = Installation::of_this_program();
  if (!here.installed || !here.torch.empty()) return;  // their run path has it
  const fs::path torch = torch_folder();
  std::error_code missing;
  if (torch.empty() || fs::equivalent(torch, here.root.parent_path() / "torch", missing)) return;
  std::vector<std::string> folders = {torch / "lib"};
  for (const auto& folder : cuda_library_folders(torch)) folders.push_back(folder);
  if (const char* given = std::getenv("LD_LIBRARY_PATH"); given != nullptr && *given != '\0')
    folders.emplace_back(given);
  ::setenv("LD_LIBRARY_PATH", join(folders, ":").c_str(), /*overwrite=*/1);
}
}  // namespace optrush
