#include "mesh_plan/measured_hardware.h"

#include <algorithm>
#include <cmath>

#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "mesh_plan/config_cost.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush::mesh_plan {
namespace {
const std::optional<Plan>& plan_of(const Analysis& a, const Row& row) {
  return a.plans[static_cast<size_t>(row.variant)];
}

double phase(const Row& row, const char* name) {
  for (const auto& [phase, seconds] : row.phases)
    if (phase == name) return seconds.value_or(0);
  return 0;
}

/// False if the plugin freezes some parameters.
bool trains_all(const Plan& plan) {
  return !plan.parameters || plan.parameters->count == plan.parameters->trainable;
}

/// The option of any plugin in the stack; 0 if none has it.
int64_t plugin_option(const Plan& plan, const char* name) {
  for (const UsedPlugin& plugin : plan.plugins) {
    const auto found = plugin.options.find(name);
    if (found != plugin.options.end() && found->is_number_integer()) return found->get<int64_t>();
  }
  return 0;
}

/// The mix by the mesh's names; the remaining ranks are dp.
ParallelConfig mesh_of(const Analysis& a, const Row& row) {
  ParallelConfig mix;
  for (const MeshDimension& dim : row.mesh) {
    if (dim.name == "pp") mix.pp = dim.size;
    if (dim.name == "cp") mix.cp = dim.size;
    if (dim.name == "ep") mix.ep = dim.size;
    if (dim.name == "tp" || dim.name == "tp_shared") mix.tp *= dim.size;
  }
  mix.dp = row.devices / (mix.pp * mix.cp * mix.ep * mix.tp);
  if (mix.replicas() == 1) return mix;
  const Plan& plan = plan_of(a, row).value();
  mix.stage = plugin_option(plan, "stage");
  const int64_t shards = plugin_option(plan, "shard_ranks");
  mix.shard_ranks = mix.stage == 0 ? 1 : shards > 0 ? shards : mix.replicas();
  return mix;
}

Precision precision_of(const Row& row, const std::string& dtype) {
  if (dtype == "bf16") return Precision::bf16;
  return row.dtype.empty() ? Precision::mixed : Precision::fp32;
}

const Row* fastest_of_one_device(const Analysis& a) {
  const Row* fastest = nullptr;
  for (const Row& row : a.rows) {
    if (row.devices != 1 || !trained_decoder(a, row) || phase(row, "forward") <= 0) continue;
    if (fastest == nullptr || row.tokens_per_second > fastest->tokens_per_second) fastest = &row;
  }
  return fastest;
}
}  // namespace

bool trained_decoder(const Analysis& a, const Row& row) {
  const RunSpec& spec = a.spec(row);
  const auto& plan = plan_of(a, row);
  // The formulas are for whole sequences and training of all parameters. Adapters, packed documents and a
  // reference model for preferences do other work.
  const bool whole = spec.data.kind != "documents" && spec.data.kind != "preferences";
  return row.ok() && !row.external && spec.model_kind == "llama" && !spec.model.contains("checkpoint") &&
         whole && plan && trains_all(*plan);
}

MeasuredConfig measured_config(const Analysis& a, const Row& row) {
  if (!trained_decoder(a, row))
    throw Error(ErrorCode::unsupported,
                "rung '" + row.name + "' did not complete a training of a whole decoder on whole sequences",
                "use a rung with a model of rush.llama, without adapters and documents");
  const TrainSpec& train = plan_of(a, row)->problem;
  MeasuredConfig measured;
  measured.mix = mesh_of(a, row);
  measured.mix.micro_batch = train.micro_batch;
  measured.mix.accumulation = train.accumulation;
  measured.problem = {.model = llama_from_json(a.spec(row).model, row.name),
                      .precision = precision_of(row, train.dtype),
                      .seq_len = train.seq_len,
                      .global_batch = measured.mix.batch_ranks() * train.micro_batch * train.accumulation};
  return measured;
}

Hardware reached_by(const Analysis& a, const Row& row, Hardware hardware) {
  const MeasuredConfig measured = measured_config(a, row);
  const DecoderWork work(measured.problem.model);
  const StageShare whole{.blocks = work.blocks, .embedding = true, .head = true};
  Hardware unit;
  unit.flops = 1;
  const PassSeconds flops = pass_seconds(measured.mix, measured.problem, whole, unit);
  const double passes = real(measured.mix.accumulation);
  hardware.flops =
      passes * (flops.forward + flops.backward) / (phase(row, "forward") + phase(row, "backward"));
  const double update = NumberBytes(measured.problem.precision).update(measured.mix.accumulation);
  if (phase(row, "optimizer") > 0)
    hardware.memory_bandwidth = work.parameters() * update / phase(row, "optimizer");
  hardware.sources = {
      "arithmetic: " + flops_rate(hardware.flops) + ", measured in the forward and backward of '" + row.name +
          "' on one device",
      "optimizer: " + grouped(hardware.memory_bandwidth / 1e9) + " GB/s, measured in its update"};
  return hardware;
}

Hardware measured_hardware(const Analysis& a, Precision precision) {
  const Json& context = a.context;
  if (!context.contains("peak") || !context.contains("cpu"))
    throw Error(ErrorCode::unsupported, "the report has no measured speed of its machine",
                "give a report whose context.json has a peak");
  Hardware hardware;
  hardware.name = context.at("peak").at("device").get<std::string>();
  hardware.peak_flops = mfu_denominator(context).value_or(0);
  const bool gpu = context.contains("gpus") && !context.at("gpus").empty();
  const Json& holder = gpu ? context.at("gpus").front() : context.at("cpu");
  hardware.memory = holder.at("memory_bytes").get<double>();
  hardware.memory_bandwidth = context.value("bandwidth_bytes_per_second", 0.0);
  if (const Row* row = fastest_of_one_device(a)) return reached_by(a, *row, hardware);
  const std::string dtype = precision == Precision::fp32 ? "fp32" : "bf16";
  hardware.flops = peak_of_dtype(context, dtype).value_or(0);
  hardware.sources = {"arithmetic: " + flops_rate(hardware.flops) + ", the measured " + dtype +
                      " matmul peak, an upper bound for a step"};
  return hardware;
}

void set_measured_link(const Analysis& a, Hardware& hardware) {
  double bandwidth = 0, hop = INFINITY;
  for (const Row& row : a.rows) {
    if (!row.ok() || row.devices < 2) continue;
    bandwidth = std::max(bandwidth, quantity_of_grid("bus_bandwidth")->value(a, row).value_or(0));
    if (a.spec(row).model.value("op", "") == "all_reduce")
      hop = std::min(hop, quantity_of_grid("collective_time")->value(a, row).value_or(INFINITY) /
                              (2 * real(row.devices - 1)));
  }
  if (bandwidth == 0)
    throw Error(ErrorCode::unsupported, "the report has no measured collective",
                "give a report of experiments/interconnect.lua");
  const Link link{bandwidth, std::isfinite(hop) ? hop : 0};
  const bool several = a.context.contains("hosts") && a.context.at("hosts").size() > 1;
  if (several) {
    hardware.network = link;
    hardware.network.bandwidth /= static_cast<double>(a.context.at("hosts").front().at("ranks").size());
  } else {
    hardware.node = link;
  }
  hardware.sources.push_back(std::string(several ? "between nodes: " : "within a node: ") +
                             grouped(bandwidth / 1e9) + " GB/s by bus bandwidth and " +
                             duration(link.hop_seconds) + " a hop, measured by " + a.experiment.name);
}
}  // namespace optrush::mesh_plan
