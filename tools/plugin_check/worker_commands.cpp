#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "base/files.h"
#include "base/seconds_since.h"
#include "base/suggest.h"
#include "build_info.h"
#include "machine/installation.h"
#include "machine/stand_in.h"
#include "measure/memory.h"
#include "optrush/error.h"
#include "plugin_check/commands.h"
#include "plugin_check/run_case.h"
#include "plugin_check/small_data.h"
#include "spec/spec_json.h"
#include "worker/device.h"
#include "worker/run_failure.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
struct CheckListRequest {
  std::string device = "auto";
  std::vector<std::string> plugins;  ///< NAME[:key=value,...]; empty: all
  std::vector<std::string> kinds;    ///< empty: all
  std::vector<std::string> plugin_path;
  bool without_values = false;  ///< nothing is compared; only for a stand-in for a GPU
  fs::path out;
};

CheckKind kind_named(const std::string& name) {
  const std::vector<std::string> names(kCheckKinds.begin(), kCheckKinds.end());
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw UsageError(ErrorCode::unknown_name, "unknown kind of case '" + name + "'",
                     did_you_mean(name, names));
  return static_cast<CheckKind>(found - names.begin());
}

/// Version, ABI and hashes of the programs, so that a rebuilt program repeats its checks.
std::string build_identity() {
  const fs::path worker = Installation::of_this_program().worker;
  std::string identity = std::string(OPTRUSH_VERSION) + host_abi() + sha256_file(worker);
  for (const fs::path& library :
       {worker.parent_path() / "liboptrush.so", worker.parent_path().parent_path() / "lib" / "liboptrush.so"})
    if (fs::is_regular_file(library)) identity += sha256_file(library);
  return identity;
}

class Identities {
 public:
  Identities(const Catalogue& catalogue, std::string machine) : machine_(std::move(machine)) {
    for (const auto& plugin : catalogue.plugins()) files_[plugin.name] = sha256_file(plugin.file);
  }
  std::string of(const CheckCase& c) const {
    std::string text = machine_ + to_json(c).dump();
    for (const PluginUse& use : c.spec.plugins)
      if (const auto file = files_.find(use.name); file != files_.end()) text += file->second;
    return sha256(text);
  }

 private:
  std::string machine_;
  std::map<std::string, std::string> files_;
};

/// Throws an Error for a check without values on a device that computes, or with values on a device that
/// computes nothing.
void refuse_wrong_comparisons(const std::string& device, bool without_values) {
  if (is_stand_in(device) && !without_values)
    throw UsageError(kNothingComputed, "--without-values runs the cases on it and compares nothing");
  if (!is_stand_in(device) && without_values)
    throw UsageError(
        "--without-values compares nothing; it is for tests on a stand-in for a GPU, and the device is " +
            device,
        "leave it out");
}

CheckCase listed_case(Json line, const fs::path& file) {
  line.erase("identity");
  return check_case_from_json(line, file.string());
}

/// Writes the cases for this machine in order: {"device", "name", "unusable", "cases"}. Each case has an
/// `identity`, a hash of all that its result depends on (device, build, plugin files, the case). Loads no
/// plugin.
int check_list_command(const CheckListRequest& given) {
  const at::Device device = open_device(given.device);
  refuse_wrong_comparisons(device_name(device), given.without_values);
  const Catalogue catalogue = Catalogue::find(given.plugin_path);
  CheckRequest request;
  request.device = device.is_cuda() ? "cuda" : "cpu";
  request.plugin_path = given.plugin_path;
  request.without_values = given.without_values;
  for (const auto& plugin : given.plugins)
    request.plugins.push_back(parse_plugin_argument(plugin, catalogue));
  for (const auto& kind : given.kinds) request.kinds.push_back(kind_named(kind));
  const Identities identities(catalogue, device_name(device) + build_identity());
  Json list = {{"device", request.device}, {"name", device_name(device)}};
  list["unusable"] = Json::array();
  for (const auto& [file, reason] : catalogue.unusable())
    list["unusable"].push_back({{"file", file.string()}, {"reason", reason}});
  list["cases"] = Json::array();
  for (const CheckCase& each : check_cases(request, catalogue, machine_offer(find_python_tools()))) {
    Json line = to_json(each);
    line["identity"] = identities.of(each);
    list["cases"].push_back(std::move(line));
  }
  write_json(given.out, list);
  return 0;
}

/// Runs the cases of a file of check_list_command in order. Appends a JSON line to the journal when a case
/// begins and when it ends. A case that fails is the last one of the process.
int check_run_command(const fs::path& cases, const fs::path& journal) {
  install_cpu_memory_tracking();
  at::set_num_threads(static_cast<int>(std::thread::hardware_concurrency()));
  const Json list = read_json(cases);
  const CheckCase first = listed_case(list.at("cases").at(0), cases);
  const CheckContext context{open_device(list.at("device")), Catalogue::find(first.spec.plugin_path)};
  StackCheck stacks(context);
  const fs::path folder = fs::absolute(cases).parent_path();
  write_small_data(folder);
  for (const Json& line : list.at("cases")) {
    const Json& identity = line.at("identity");
    CheckCase each = listed_case(line, cases);
    if (!each.spec.data.path.empty()) each.spec.data.path = (folder / each.spec.data.path).string();
    append_line(journal, Json{{"begin", each.id}, {"identity", identity}}.dump());
    const auto start = std::chrono::steady_clock::now();
    CaseEnd end = run_case(each, context, stacks);
    end.seconds = seconds_since(start);
    append_line(journal, Json{{"case", each.id}, {"identity", identity}, {"end", to_json(end)}}.dump(
                             -1, ' ', true, Json::error_handler_t::replace));
    // End the process after a failure, so that its side effects do not affect other cases.
    if (end.status == CaseStatus::failed) return 0;
  }
  return 0;
}

void add_check_list(CLI::App& app, int& code) {
  auto request = std::make_shared<CheckListRequest>();
  auto* listing = app.add_subcommand("check-list", "write the cases for check-run");
  listing->add_option("--out", request->out, "file for the cases (JSON)")->required();
  listing->add_option("--device", request->device, "auto, cpu or cuda");
  listing->add_option("--plugin", request->plugins, "NAME[:key=value,...]; may be repeated");
  listing->add_option("--kind", request->kinds,
                      "alone, gradient, types, resume, compiled or pair; may be repeated");
  listing->add_option("--plugin-path", request->plugin_path, "folder with plugins; may be repeated")
      ->check(CLI::ExistingDirectory);
  listing->add_flag("--without-values", request->without_values, "for a stand-in for a GPU: compare nothing");
  listing->callback(
      [request, &code] { code = answering(request->out, [&] { return check_list_command(*request); }); });
}

void add_check_run(CLI::App& app, int& code) {
  struct Options {
    fs::path cases, journal;
  };
  auto options = std::make_shared<Options>();
  auto* checking = app.add_subcommand("check-run", "run cases one after another");
  checking->add_option("--cases", options->cases, "file from check-list")->required();
  checking
      ->add_option("--journal", options->journal, "file for a JSON line at the start and end of each case")
      ->required();
  checking->callback([options, &code] { code = check_run_command(options->cases, options->journal); });
}
}  // namespace

void plugin_check::add_worker_commands(CLI::App& app, int& code) {
  add_check_list(app, code);
  add_check_run(app, code);
}
}  // namespace optrush
