#include "launch/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "optrush/error.h"

namespace optrush {
TemporaryFolder::TemporaryFolder() {
  std::string name = std::filesystem::temp_directory_path() / "optrush-XXXXXX";
  if (mkdtemp(name.data()) == nullptr)
    throw Error("cannot make the folder '" + name + "': " + std::strerror(errno),
                "set TMPDIR to a folder with space");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
}  // namespace optrush
