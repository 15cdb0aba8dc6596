#include "experiment/plan.h"

#include <algorithm>

#include "base/number_text.h"
#include "base/text.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// An estimate of the device memory of one communicator: it depends on NCCL's channels and peers.
constexpr double kCommunicatorBytes = 256.0 * (1 << 20);

/// The number of ranks that split the data is the global batch divided by the sequences per rank.
TrainSpec problem_from_json(const Json& json) {
  TrainSpec train = fields_of<TrainSpec>().read(json);
  int64_t of_a_rank = 0;
  if (__builtin_mul_overflow(train.micro_batch, train.accumulation, &of_a_rank) || of_a_rank < 1 ||
      train.global_batch < of_a_rank || train.global_batch % of_a_rank != 0)
    throw Error(ErrorCode::invalid_value,
                "'global_batch' of 'problem' must be a multiple of micro_batch times accumulation, but is " +
                    std::to_string(train.global_batch));
  // Older builds did not write it: at least the number of ranks that split the data.
  if (!json.contains("world_size")) train.world_size = train.global_batch / of_a_rank;
  return train;
}
}  // namespace

static Record<PlannedSlot::Wrap> record_of(const PlannedSlot::Wrap*) {
  using W = PlannedSlot::Wrap;
  return Record<W>("a wrap")
      .field("phase", &W::phase, {.required = true})
      .field("plugin", &W::plugin, {.required = true});
}

static Record<PlannedSlot> record_of(const PlannedSlot*) {
  using S = PlannedSlot;
  return Record<S>("a slot")
      .open()
      .field("slot", &S::slot, {.required = true})
      .field("base", &S::base, {.required = true})
      .field("wraps", &S::wraps);
}

static Record<PlannedParameters> record_of(const PlannedParameters*) {
  using P = PlannedParameters;
  return Record<P>("the parameters")
      .open()
      .field("count", &P::count)
      .field("trainable", &P::trainable)
      .field("bytes", &P::bytes)
      .field("kept", &P::kept, "elements that rank 0 keeps between steps", {.left_out = true});
}

static Record<PlannedFlops> record_of(const PlannedFlops*) {
  using F = PlannedFlops;
  return Record<F>("the FLOPs of a token")
      .open()
      .field("mfu", &F::mfu, {.nullable = true})
      .field("mfu_causal", &F::mfu_causal, {.nullable = true});
}

static Record<OperatorWork::Pass> record_of(const OperatorWork::Pass*) {
  using P = OperatorWork::Pass;
  return Record<P>("the work of a pass")
      .open()
      .field("bytes", &P::bytes, {.required = true})
      .field("flops", &P::flops, {.required = true});
}

static Record<OperatorWork> record_of(const OperatorWork*) {
  using W = OperatorWork;
  return Record<W>("the work of an operator")
      .open()
      .field("forward", &W::forward, {.required = true})
      .field("backward", &W::backward, {.required = true});
}

Record<MeshDimension> record_of(const MeshDimension*) {
  using D = MeshDimension;
  return Record<D>("a dimension of the mesh")
      .field("dim", &D::name, {.required = true})
      .field("size", &D::size, {.required = true, .schema = {{"minimum", 1}}})
      .then([](D& dimension) {
        constexpr int64_t kMost = 1'000'000;
        if (dimension.size < 1 || dimension.size > kMost)
          throw Error(ErrorCode::invalid_value,
                      "a dimension of the mesh of " + std::to_string(dimension.size) + " ranks");
      });
}

Record<PlannedMemory> record_of(const PlannedMemory*) {
  using M = PlannedMemory;
  const auto parts =
      Record<M>("the parts of a peak")
          .open()
          .field("tensors", &M::tensors, {.nullable = true, .integer = true})
          .field("block_rounding", &M::block_rounding, {.nullable = true, .integer = true})
          .field("cublas_workspaces", &M::cublas_workspaces, {.nullable = true, .integer = true});
  return Record<M>("a forecast of memory")
      .open()
      .field("peak_bytes", &M::peak, {.required = true, .integer = true})
      .field("least_bytes", &M::least, {.integer = true})
      .custom(
          "bounded_by", {.nullable = true, .schema = {{"type", "string"}}},
          [](M& memory, const Json& json) {
            memory.bounded_by = record::taken<std::string>(json, "bounded_by");
          },
          [](const M& memory) { return memory.bounded_by.empty() ? Json() : Json(memory.bounded_by); })
      .part("parts", parts, {})
      .field("reserved_bytes", &M::reserved, {.nullable = true, .integer = true})
      .field("pinned_bytes", &M::pinned, {.nullable = true, .integer = true})
      .field("communicators", &M::communicators, {.left_out = true, .integer = true})
      .field("available_bytes", &M::available, {.nullable = true, .integer = true})
      .field("device", &M::device)
      .field("rank", &M::rank, {.nullable = true, .integer = true})
      .then([](M& memory) {
        if (memory.least == 0) memory.least = memory.peak;
      });
}

static Record<PlannedWeights> record_of(const PlannedWeights*) {
  using W = PlannedWeights;
  return Record<W>("exported weights")
      .open()
      .field("bytes", &W::bytes, "size of the safetensors file", {.required = true, .integer = true})
      .field("host_bytes", &W::host, "host memory that the tensors of the export hold at once",
             {.integer = true});
}

Record<PlannedSaving> record_of(const PlannedSaving*) {
  using S = PlannedSaving;
  return Record<S>("a forecast of saved states")
      .open()
      .field("part_bytes", &S::parts, "size of the file that each rank writes, by rank",
             {.required = true, .integer = true})
      .field("states", &S::states, "the most states that the run saves; null: epochs are its only end",
             {.required = true, .nullable = true})
      .field("kept_bytes", &S::kept, "states in the run's folder after the run", {.integer = true})
      .field("disk_bytes", &S::disk,
             "most bytes of states in the run's folder: a new state is complete before the old "
             "one is removed",
             {.integer = true})
      .field("host_bytes", &S::host, "host memory of a rank for saving, beside its tensors",
             {.integer = true})
      .field("device_bytes", &S::device, "device memory of a rank for saving; absent on a CPU",
             {.left_out = true, .integer = true})
      .field("weights", &S::weights,
             "written by optrush weights: the model, or an adapter alone; absent: it cannot be "
             "exported",
             {.left_out = true})
      .field("merged_weights", &S::merged, "written by optrush weights --merge; absent: there is no adapter",
             {.left_out = true});
}

Record<PlannedValidation> record_of(const PlannedValidation*) {
  using V = PlannedValidation;
  return Record<V>("a forecast of validations")
      .open()
      .field("times", &V::times, "the most validations in the run; null: epochs are its only end",
             {.required = true, .nullable = true})
      .field("positions", &V::positions, "positions of one validation, including padding, of all ranks",
             {.required = true})
      .field("peak_bytes", &V::peak, "peak memory of a rank in a validation",
             {.required = true, .integer = true})
      .field("flops_share", &V::flops, "FLOPs of all validations divided by the FLOPs of all steps",
             {.left_out = true});
}

Record<UsedPlugin> record_of(const UsedPlugin*) {
  using P = UsedPlugin;
  return Record<P>("a plugin")
      .open()
      .field("name", &P::name, {.required = true})
      .field("version", &P::version, {.required = true})
      .field("file", &P::file, {.required = true})
      .field("sha256", &P::sha256, {.required = true})
      .field("effect", &P::effect, {.choices = effect_names()})
      .field("options", &P::options, {.type = "object"})
      .custom(
          "per_micro_batch",
          {.doc = "its loss depends on the sequences that share a micro-batch; written if true",
           .left_out = true,
           .schema = record::of_type("boolean")},
          [](P& plugin, const Json& json) {
            plugin.per_micro_batch = record::taken<bool>(json, "per_micro_batch");
          },
          [](const P& plugin) { return plugin.per_micro_batch ? Json(true) : Json(); });
}

/// Each plugin of a plan must state its effect, because the gate compares by effects.
static void read_plugins(Plan& plan, const Json& json) {
  plan.plugins = record::taken<std::vector<UsedPlugin>>(json, "plugins");
  for (const Json& plugin : json)
    for (const char* field : {"effect", "options"})
      if (!plugin.contains(field))
        throw Error(ErrorCode::invalid_file,
                    "field '" + std::string(field) + "' is missing in a plugin of a plan");
}

/// The fields, in the order of the file.
Record<Plan> record_of(const Plan*) {
  using P = Plan;
  return Record<P>("a plan")
      .open()
      .custom(
          "schema_version", {}, [](P&, const Json&) {}, [](const P&) -> Json { return 1; })
      .custom(
          "problem", {.doc = "train of the spec, with what plugins made of it", .required = true},
          [](P& plan, const Json& json) { plan.problem = problem_from_json(json); },
          [](const P& plan) { return to_json(plan.problem); })
      .field("model_kind", &P::model_kind)
      .field("model", &P::model, {.required = true, .type = "object"})
      .field("data", &P::data)
      .custom("plugins", {.required = true, .schema = record::described<std::vector<UsedPlugin>>()},
              read_plugins, [](const P& plan) { return record::written(plan.plugins); })
      .field("slots", &P::slots)
      .field("activations", &P::activations)
      .field("parameters", &P::parameters, {.left_out = true})
      .field("notes", &P::notes)
      .field("flops_per_token", &P::flops_per_token, {.left_out = true})
      .field("mesh", &P::mesh, {.left_out = true})
      .field("work", &P::work, {.nullable = true, .left_out = true})
      .field("memory", &P::memory, {.nullable = true})
      .field("saving", &P::saving, {.left_out = true})
      .field("validation", &P::validation, {.left_out = true})
      .field("costs", &P::costs, {.nullable = true})
      .field("no_forecast", &P::no_forecast, {.left_out = true});
}

bool Plan::uses(Effect effect) const {
  return std::ranges::any_of(plugins, [&](const UsedPlugin& plugin) { return plugin.effect == effect; });
}

Plan plan_from_json(const Json& json, const std::string& where) {
  return fields_of<Plan>().read(json, where);
}

std::optional<Plan> optional_plan_from_json(const Json& json, const std::string& where) {
  return json.is_null() ? std::nullopt : std::optional(plan_from_json(json, where));
}

Json to_json(const std::optional<Plan>& plan) { return plan ? to_json(*plan) : Json(); }

std::string planned_peak_text(const PlannedMemory& memory) {
  return memory.bounded_by.empty() ? bytes(memory.peak) : bytes(memory.least) + " to " + bytes(memory.peak);
}

std::string planned_memory_text(const PlannedMemory& memory) {
  std::string text = (memory.rank ? "largest predicted peak, on rank " + std::to_string(*memory.rank) + ": "
                                  : "predicted peak ") +
                     planned_peak_text(memory);
  if (memory.device == "cuda") {
    text += " active";
    std::vector<std::string> parts;
    if (memory.cublas_workspaces.value_or(0) > 0)
      parts.push_back("cuBLAS workspaces " + bytes(*memory.cublas_workspaces));
    if (memory.block_rounding.value_or(0) > 0)
      parts.push_back("rounding to blocks " + bytes(*memory.block_rounding));
    if (!parts.empty()) text += " (including " + join(parts) + ")";
    if (memory.reserved)
      text += ", " + std::string(memory.bounded_by.empty() ? "" : "at most ") + bytes(*memory.reserved) +
              " reserved";
    const double by_nccl = memory.communicators.value_or(0) * kCommunicatorBytes;
    if (by_nccl > 0)
      text += ", and about " + bytes(by_nccl) + " for " +
              counted(static_cast<int64_t>(*memory.communicators), "communicator") + " of NCCL (an estimate)";
    if (memory.reserved && memory.available && memory.peak <= *memory.available &&
        *memory.reserved + by_nccl > *memory.available)
      text +=
          ", more than the GPU has: with env = { PYTORCH_ALLOC_CONF = \"expandable_segments:True\" } the "
          "allocator can use its fragments";
    if (memory.pinned.value_or(0) > 0) text += ", and " + bytes(*memory.pinned) + " of pinned host memory";
  }
  return memory.bounded_by.empty() ? text : text + "; bounds: " + memory.bounded_by;
}

std::string planned_saving_text(const PlannedSaving& saving) {
  const bool ranks = saving.parts.size() > 1;
  std::string text =
      "a saved state takes " + bytes(saving.bytes()) + " (" + grouped(saving.bytes()) + " bytes";
  if (ranks) text += " in " + std::to_string(saving.parts.size()) + " files, one per rank";
  text += "); " +
          (saving.states ? "at most " + counted(*saving.states, "state") + " saved"
                         : "states are saved until the last epoch ends") +
          ", " + bytes(saving.disk) + " of disk at once, " + bytes(saving.kept) + " after the run; ";
  text +=
      saving.host > 0 ? "saving needs " + bytes(saving.host) + " of host memory" : "saving copies nothing";
  if (saving.device.value_or(0) > 0) text += " and " + bytes(*saving.device) + " of device memory";
  return text + (ranks && saving.host > 0 ? " per rank" : "");
}

std::string planned_weights_text(const PlannedSaving& saving) {
  const auto text = [](const PlannedWeights& weights) {
    return bytes(weights.bytes) + ", with " + bytes(weights.host) + " of host memory";
  };
  if (!saving.weights) return "";
  return "exported weights: " + text(*saving.weights) +
         (saving.merged ? "; merged: " + text(*saving.merged) : "");
}

std::string planned_validation_text(const PlannedValidation& validation) {
  return "validation: " +
         (validation.times ? "at most " + counted(*validation.times, "time") : "until the last epoch ends") +
         ", each " + counted(validation.positions, "position") + ", predicted peak " +
         bytes(validation.peak) +
         (validation.flops ? "; together " + percent(*validation.flops) + " of the FLOPs of the steps" : "");
}
}  // namespace optrush
