#include "report/writers/render.h"

#include <unistd.h>

#include "base/files.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "optrush/error.h"
#include "optrush/machine.h"
#include "process/process.h"
#include "report/writers/writers.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr double kRenderTimeout = 120;

/// A file that is removed at the end.
struct Scratch {
  fs::path path;
  ~Scratch() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

Json job_of(const fs::path& folder, const Analysis& a, const std::vector<Chart>& charts,
            const std::string& page, bool png) {
  Json list = Json::array(), rungs = Json::array();
  for (const Chart& chart : charts)
    list.push_back({{"name", chart.name}, {"kind", chart.kind}, {"data", chart.data}, {"note", chart.note}});
  for (const Row& row : a.rows) rungs.push_back(row.name);
  return {{"experiment", a.experiment.name},
          {"rungs", std::move(rungs)},
          {"folder", folder.string()},
          {"png", png},
          {"charts", std::move(list)},
          {"page", {{"html", page}, {"mark", kChartsMark}, {"file", (folder / "report.html").string()}}},
          {"cache", cache_folder("charts").string()}};
}
}  // namespace

std::string draw(const fs::path& folder, const Analysis& a, const std::vector<Chart>& charts,
                 const std::string& page, bool png) {
  const fs::path python = project_python();
  if (python.empty()) return "there is no Python environment";
  // Several processes may draw in one folder at the same time.
  const std::string own = ".charts." + std::to_string(getpid());
  const Scratch job{folder / (own + ".json")}, log{folder / (own + ".log")};
  write_json(job.path, job_of(folder, a, charts, page, png));
  try {
    Interrupts interrupts;
    const fs::path script = Installation::of_this_program().scripts / "charts";
    const ProcessEnd end =
        run_process({{python.string(), "-B", script.string(), job.path.string()}, {}, log.path},
                    {kRenderTimeout}, interrupts);
    if (end.kind == ProcessEnd::Kind::exited && end.code == 0) return "";
    if (end.kind != ProcessEnd::Kind::exited) return "the drawing did not end";
  } catch (const Error& e) {
    return e.message();
  }
  // The last line of a Python traceback is the error.
  std::string text = read_file(log.path);
  while (text.ends_with('\n')) text.pop_back();
  return python.string() + ": " + text.substr(text.rfind('\n') + 1);
}
}  // namespace optrush
