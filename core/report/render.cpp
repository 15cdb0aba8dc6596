#include "report/render.h"

#include <unistd.h>

#include "base/files.h"
#include "base/python.h"
#include "optrush/cache.h"
#include "optrush/error.h"
#include "process/process.h"
#include "render_script.h"
#include "report/theme.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr double kRenderTimeout = 120;

/// A file that is gone when its user is.
struct Scratch {
  fs::path path;
  ~Scratch() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

Json job_of(const fs::path& folder, const std::vector<Chart>& charts, const std::string& page, bool png) {
  Json list = Json::array();
  for (const auto& chart : charts)
    list.push_back({{"spec", chart.spec},
                    {"svg", (folder / (chart.name + ".svg")).string()},
                    {"png", png ? Json((folder / (chart.name + ".png")).string()) : Json()}});
  return {{"charts", list},
          {"css", chart_css()},
          {"page", {{"html", page}, {"mark", kLibraryMark}, {"file", (folder / "report.html").string()}}},
          {"cache", cache_folder("charts").string()}};
}
}  // namespace

std::string draw(const fs::path& folder, const std::vector<Chart>& charts, const std::string& page,
                 bool png) {
  const fs::path python = project_python();
  if (python.empty()) return "there is no Python environment";
  // Several may draw in one folder at a time.
  const std::string own = ".charts." + std::to_string(getpid());
  const Scratch job{folder / (own + ".json")}, log{folder / (own + ".log")};
  write_json(job.path, job_of(folder, charts, page, png));
  try {
    Interrupts interrupts;
    const ProcessEnd end =
        run_process({{python.string(), "-c", kRenderScript, job.path.string()}, {}, log.path},
                    {kRenderTimeout}, interrupts);
    if (end.kind == ProcessEnd::Kind::exited && end.code == 0) return "";
    if (end.kind != ProcessEnd::Kind::exited) return "the drawing did not end";
  } catch (const Error& e) {
    return e.message();
  }
  // The last line of a traceback is the error.
  std::string text = read_file(log.path);
  while (text.ends_with('\n')) text.pop_back();
  return python.string() + ": " + text.substr(text.rfind('\n') + 1);
}
}  // namespace optrush
