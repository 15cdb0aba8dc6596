#include "report/writers/render.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

#include "base/files.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "optrush/advanced/machine.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr double kRenderTimeout = 120;

Json job_of(const fs::path& folder, const Analysis& a, const std::vector<Chart>& charts,
            const std::string& page, bool png) {
  const auto drawing = [](const Chart& chart) -> Json {
    return {{"name", chart.name}, {"kind", chart.kind}, {"data", chart.data}, {"note", chart.note}};
  };
  return {{"experiment", a.experiment.name},
          {"rungs", json_list(a.rows, &Row::name)},
          {"folder", folder.string()},
          {"png", png},
          {"charts", json_list(charts, drawing)},
          {"page", {{"html", page}, {"mark", kChartsMark}, {"file", (folder / "report.html").string()}}},
          {"cache", cache_folder("charts").string()}};
}
}  // namespace

ChartProcess::ChartProcess(fs::path folder) : folder_(std::move(folder)), python_(project_python()) {
  if (python_.empty())
    problem_ = "there is no Python environment";
  else
    start();
}

void ChartProcess::start() try {
  scratch_.emplace();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorCode::file_access, "cannot create a pipe");
  const Descriptor reading(ends[0]);
  input_ = Descriptor(ends[1]);
  const fs::path script = Installation::of_this_program().scripts / "charts";
  const Interrupts interrupts;  // a parent may ignore SIGCHLD, and the end of the process would be lost
  process_.emplace(Command{.arguments = {python_.string(), "-B", script.string(), job().string()},
                           .log = log(),
                           .input = reading.get()});
} catch (const Error& e) {
  problem_ = e.message();
}

void ChartProcess::begin(const Analysis& a, const std::vector<Chart>& charts, const std::string& page,
                         bool png) {
  if (!process_) return;
  write_json(job(), job_of(folder_, a, charts, page, png));
  input_.close();
}

std::string ChartProcess::finish() {
  if (!process_) return problem_;
  Interrupts interrupts;
  const ProcessEnd end =
      run_to_end(*process_, std::chrono::steady_clock::now(), {kRenderTimeout}, interrupts);
  if (end.kind != ProcessEnd::Kind::exited) return "the drawing did not end";
  return end.code == 0 ? "" : python_.string() + ": " + last_line(read_file(log()));
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}
}  // namespace optrush
