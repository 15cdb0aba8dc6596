#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
/// The Python that goes with this program: OPTRUSH_PYTHON if it is set, else the .venv of the source tree,
/// else the one of the environment that its LibTorch lies in, else the python3 that would import that torch.
/// Empty where there is none.
std::filesystem::path project_python();

/// Runs it with `arguments` and waits. Its output goes to `log`. Returns the exit code; 128 + n where signal
/// n ended it. An Error where there is no Python or it can't be started.
int run_python(const std::vector<std::string>& arguments, const std::filesystem::path& log);
}  // namespace optrush
