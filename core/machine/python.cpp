#include "machine/python.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/files.h"
#include "machine/child.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "machine/torch_folder.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

std::string path_with_our_package(const std::string& own) {
  return (Installation::of_this_program().scripts / "python").string() + (own.empty() ? "" : ":" + own);
}

std::string shell_word(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("%+,-./:=@_", c);
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

namespace {
/// Runs a script with a Python and returns its standard output; empty if it fails.
std::string output_of(const fs::path& program, const std::string& script, const std::string& argument = "") {
  const std::string command = shell_word(program) + " -c " + shell_word(script) + " " + shell_word(argument) +
                              " 2>/dev/null </dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"), &pclose);
  if (!pipe) return "";
  std::string text;
  std::array<char, 4096> part{};
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe.get()))
    text.append(part.data(), count);
  return text;
}

/// The environment whose <environment>/lib/python3.x/site-packages/torch this is; empty for another layout.
fs::path environment_of(const fs::path& torch) {
  const fs::path packages = torch.parent_path(), version = packages.parent_path();
  const bool fits =
      packages.filename() == "site-packages" && version.filename().string().starts_with("python3");
  return fits ? version.parent_path().parent_path() : fs::path();
}
}  // namespace

TorchOfPython torch_of_python(const fs::path& python) {
  // Without importing packages, which would take seconds.
  const std::string text = output_of(python, R"py(
import importlib.util, json, sys
spec = importlib.util.find_spec("torch")
print(json.dumps([sys.executable, list(spec.submodule_search_locations or [""])[0] if spec else ""]))
)py");
  if (text.empty()) return {};
  const Json found = parse_json(text, python.string());
  return {found.at(0).get<std::string>(), found.at(1).get<std::string>()};
}

fs::path project_python() {
  if (const auto chosen = environment_variable("OPTRUSH_PYTHON"); !chosen.empty()) return chosen;
  const fs::path source = Installation::of_this_program().source, torch = torch_folder();
  for (const fs::path& prefix : {source.empty() ? fs::path() : source / ".venv", environment_of(torch)})
    if (!prefix.empty() && fs::exists(prefix / "bin/python")) return prefix / "bin/python";
  const TorchOfPython found = torch_of_python("python3");
  std::error_code missing;
  return fs::equivalent(found.torch, torch, missing) ? found.python : fs::path();
}

int run_python(const std::vector<std::string>& arguments, const fs::path& log) {
  const fs::path python = project_python();
  if (python.empty())
    throw Error(ErrorCode::missing_requirement, "no Python environment was found",
                "run ./optrush setup, or set OPTRUSH_PYTHON");
  std::vector<std::string> words = {python.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const pid_t child = start_with_parent(words, log);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw Error(ErrorCode::file_access, "lost the process of " + python.string());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<std::string> missing_packages(const fs::path& python, const fs::path& requirements) {
  const std::string text = output_of(python, R"py(
import importlib.metadata as m, json, re, sys
try: from packaging.requirements import Requirement
except ImportError: Requirement = None
missing = []
for line in open(sys.argv[1]):
    line = re.sub(r"(^|\s)#.*", "", line).strip()
    if not line or line.startswith("-"): continue
    wanted = Requirement(line) if Requirement else None
    if wanted and wanted.marker and not wanted.marker.evaluate(): continue
    try: version = m.version(re.match(r"[\w.-]+", line)[0])
    except m.PackageNotFoundError:
        missing.append(line)
        continue
    if wanted and not wanted.specifier.contains(version, prereleases=True):
        missing.append(f"{line} ({version} is installed)")
print(json.dumps(missing))
)py",
                                     requirements);
  return text.empty() ? std::vector<std::string>{"a Python that starts"}
                      : parse_json(text, python.string()).get<std::vector<std::string>>();
}

PythonTools find_python_tools() {
  PythonTools tools{.path = project_python()};
  if (tools.path.empty()) return tools;
  // From the packages' metadata, because importing torch would take seconds.
  const std::string text = output_of(tools.path, R"py(
import importlib.metadata as m, json, os, platform, sysconfig
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return ""
print(json.dumps([platform.python_version(), version("torch"), version("vl-convert-python"),
                  os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))]))
)py");
  if (text.empty()) return tools;
  const Json facts = parse_json(text, tools.path.string());
  tools.version = facts.at(0);
  tools.torch = facts.at(1);
  tools.vl_convert = facts.at(2);
  tools.headers = facts.at(3);
  return tools;
}
}  // namespace optrush
