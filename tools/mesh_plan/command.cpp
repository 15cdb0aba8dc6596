#include "mesh_plan/command.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <memory>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/hugging_face_model.h"
#include "cli/commands.h"
#include "mesh_plan/measured_hardware.h"
#include "mesh_plan/script.h"
#include "mesh_plan/tables.h"
#include "spec/presets.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush::mesh_plan {
namespace {
namespace fs = std::filesystem;

struct MeshPlanRequest {
  std::vector<std::string> model;
  int64_t devices = 0, per_node = 0, seq_len = 8192, global_batch = 1024;
  size_t top = 20, script = 0;
  std::string hardware, flops, memory, link, network, dtype = "bf16", by = "tokens/s";
  fs::path report, links;
  bool projection = false, json = false, markdown = false;

  TableForm form() const { return markdown ? TableForm::markdown : TableForm::text; }
};

/// Parses a preset, or a file of fields, followed by single fields: {"llama-3.1-8b", "n_layers=16"}.
Json fields_of(const std::vector<std::string>& words) {
  Json fields = to_json(LlamaSpec{});
  for (const std::string& word : words) {
    if (const size_t equals = word.find('='); equals != std::string::npos) {
      fields[word.substr(0, equals)] = text_value(word.substr(equals + 1));
    } else if (word.ends_with(".json")) {
      const Json file = read_json(word);
      if (!file.is_object())
        throw Error(ErrorCode::invalid_file, "'" + word + "' has no model fields",
                    R"({"dim": 4096, "n_layers": 32})");
      fields.update(file);
    } else if (fs::is_directory(word)) {
      fields = to_json(read_hugging_face_model(word).llama);
    } else {
      fields = to_json(llama_preset(word));
    }
  }
  return fields;
}

LlamaSpec model_of(const std::vector<std::string>& words) {
  try {
    const Json fields = fields_of(words);
    if (fields.contains("checkpoint"))
      throw Error(ErrorCode::unsupported, "the field 'checkpoint' is not supported here",
                  "give the folder directly");
    return llama_from_json(fields, "");
  } catch (const Error& e) {
    throw UsageError(e.code(), e.message(), e.cure(), "--model");
  }
}

/// "400T", "2.5G", 4e14: FLOP/s.
double flops_from(const std::string& text) {
  double number = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, text.data() + text.size());
  const double factor = unit == "G" ? 1e9 : unit == "T" ? 1e12 : unit == "P" ? 1e15 : unit.empty() ? 1 : 0;
  if (failed != std::errc() || number <= 0 || factor == 0)
    throw UsageError("--flops is '" + text + "'",
                     R"(give the FLOP/s that a step reaches, for example "400T")");
  return number * factor;
}

double size_from(const std::string& text, const std::string& option) {
  try {
    return bytes_from(text_value(text), option);
  } catch (const Error& e) {
    throw UsageError(e);
  }
}

Hardware preset_of(const MeshPlanRequest& options) {
  if (precision_from(options.dtype) == Precision::fp32 && options.flops.empty())
    throw UsageError("the presets have bf16 speeds only", "give --flops for fp32, or --dtype mixed");
  return hardware_preset(options.hardware.empty() ? "h100" : options.hardware);
}

Hardware named_or_measured(const MeshPlanRequest& options) {
  if (!options.report.empty() && !options.hardware.empty())
    throw UsageError("--hardware and --report exclude each other", "give one of them");
  Hardware hardware;
  if (!options.report.empty())
    hardware = measured_hardware(analyze(load_report(options.report)), precision_from(options.dtype));
  else if (!options.hardware.empty() || options.flops.empty())
    hardware = preset_of(options);
  else
    hardware.name = "devices";
  if (!options.links.empty()) set_measured_link(analyze(load_report(options.links)), hardware);
  return hardware;
}

/// The command line overrides a preset or a report.
Hardware hardware_of(const MeshPlanRequest& options) {
  Hardware hardware = named_or_measured(options);
  const auto given = [&](const std::string& text, const char* option, double& value) {
    if (text.empty()) return;
    value = size_from(text, option);
    hardware.sources.push_back(std::string(option) + " " + text + ", as given");
  };
  if (!options.flops.empty()) {
    const double before = hardware.flops;
    hardware.flops = flops_from(options.flops);
    hardware.fp8_flops = before > 0 ? hardware.fp8_flops / before * hardware.flops : 0;
    hardware.sources.push_back("--flops " + options.flops + ", as given");
  }
  given(options.memory, "--memory", hardware.memory);
  given(options.link, "--link", hardware.node.bandwidth);
  given(options.network, "--network", hardware.network.bandwidth);
  if (options.per_node > 0) hardware.per_node = options.per_node;
  if (hardware.memory_bandwidth <= 0) {  // an update is 1 % of a step, so a rough number suffices
    hardware.memory_bandwidth = 2e12;
    hardware.sources.emplace_back("optimizer: 2,000 GB/s of memory, assumed");
  }
  return hardware;
}

/// A number that a plan requires.
void check_known(const Hardware& hardware, const TrainingProblem& problem, int64_t devices) {
  const auto need = [](double value, const std::string& what, const std::string& cure) {
    if (value <= 0) throw UsageError(what + " is unknown", cure);
  };
  need(hardware.memory, "the memory of a device", "give it, for example --memory 80GB");
  need(hardware.flops, "the speed of a device", "give it, for example --flops 400T");
  if (problem.precision == Precision::fp8)
    need(hardware.fp8_flops, "the fp8 speed of a device", "give --hardware h100 or h200, or another --dtype");
  if (devices > 1)
    need(hardware.node.bandwidth, "the bandwidth within a node", "give --link 450GB, or --links REPORT");
  if (devices > hardware.per_node)
    need(hardware.network.bandwidth, "the network bandwidth of a device",
         "give --network 50GB, or a larger --per-node");
}

void print(const Json& json) { std::cout << json.dump(2, ' ', true, Json::error_handler_t::replace) << "\n"; }

void show_estimates(const MeshPlanRequest& options, const Hardware& hardware) {
  const auto estimates = estimates_of(analyze(load_report(options.report)), hardware);
  if (options.json)
    print(estimates_json(estimates, hardware));
  else
    std::cout << estimates_text(estimates, hardware, options.form());
}

void plan(const MeshPlanRequest& options) {
  const Hardware hardware = hardware_of(options);
  if (!options.report.empty() && options.projection)
    throw UsageError("--report and --projection exclude each other", "give one of them");
  if (!options.report.empty() && options.devices == 0 && options.script == 0)
    return show_estimates(options, hardware);
  TrainingProblem problem{.precision = precision_from(options.dtype),
                          .seq_len = options.seq_len,
                          .global_batch = options.global_batch};
  if (options.projection) {
    check_known(hardware, problem, hardware.per_node + 1);
    const auto sizes = project_sizes(problem, hardware);
    const auto runs = project_published();
    if (options.json)
      print(projection_json(sizes, runs));
    else
      std::cout << projection_text(sizes, runs, options.form());
    return;
  }
  if (options.model.empty() || options.devices == 0)
    throw UsageError("a plan needs --model and --devices",
                     "for example --model " + llama_preset_names().back() +
                         " --devices 64; or give --projection, or --report");
  problem.model = model_of(options.model);
  check_known(hardware, problem, options.devices);
  const PlanOrder order = options.by == "memory" ? PlanOrder::memory : PlanOrder::tokens;
  const MeshPlan found = plan_mesh(problem, hardware, options.devices, order);
  const std::string name = join(options.model, " ");
  if (options.script > 0)
    std::cout << script_text(found, options.script, options.model);
  else if (options.json)
    print(plan_json(found, name, options.top));
  else
    std::cout << plan_text(found, name, options.top, options.form());
}
}  // namespace

void add_command(CLI::App& app, int& code) {
  auto options = std::make_shared<MeshPlanRequest>();
  auto* command = app.add_subcommand(
      "plan-mesh", "list the parallel configurations that fit, with their traffic and estimated step time");
  command
      ->add_option("--model", options->model,
                   "preset of rush.llama, JSON file of its fields or checkpoint folder, then changed fields: "
                   "llama-3.1-8b n_layers=16")
      ->type_name("MODEL [KEY=VALUE...]");
  command->add_option("--devices", options->devices, "number of devices")->check(CLI::Range(1, 65536));
  command->add_option("--hardware", options->hardware, join(hardware_names()) + "; default: h100");
  command->add_option(
      "--report", options->report,
      "use the machine of this report; without --devices: compare its multi-rank rows with estimates");
  command->add_option("--links", options->links, "use the link measured in a report of interconnect");
  command->add_option("--flops", options->flops, "FLOP/s of a whole step, for example 400T");
  command->add_option("--memory", options->memory, "memory of a device: 80GB, 141GiB");
  command->add_option("--link", options->link, "bytes per second between devices of a node, each way: 450GB");
  command->add_option("--network", options->network, "bytes per second of a device to other nodes: 50GB");
  command->add_option("--per-node", options->per_node, "devices per node; default: 8")
      ->check(CLI::Range(1, 65536));
  command->add_option("--seq-len", options->seq_len, "tokens per sequence; default: 8192")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--global-batch", options->global_batch, "sequences per step; default: 1024")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--dtype", options->dtype, join(precision_names()) + "; default: bf16");
  command->add_option("--top", options->top, "number of configurations to show; default: 20")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--by", options->by, "order of the table; default: tokens/s")
      ->check(CLI::IsMember({"tokens/s", "memory"}));
  auto* projection =
      command->add_flag("--projection", options->projection,
                        "project Llama 3.1 8B and 70B on 8 to 4,096 devices, with published figures");
  auto* json = command->add_flag("--json", options->json, "print JSON");
  auto* markdown =
      command->add_flag("--markdown", options->markdown, "print Markdown tables")->excludes(json);
  command->add_option("--script", options->script, "print the Lua script that trains this row of the table")
      ->type_name("ROW")
      ->check(CLI::Range(1, 1 << 30))
      ->excludes(json)
      ->excludes(markdown)
      ->excludes(projection);
  command->callback([options, &code] {
    plan(*options);
    std::cout << std::flush;
    code = kOk;
  });
}
}  // namespace optrush::mesh_plan
