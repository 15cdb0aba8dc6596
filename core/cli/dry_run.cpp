#include "cli/dry_run.h"

#include <iostream>

#include "analysis/checked_rows.h"
#include "analysis/numbers/format.h"
#include "base/contains.h"
#include "base/printable.h"
#include "base/text.h"
#include "cli/commands.h"
#include "launch/folder.h"
#include "launch/schedule/needs.h"
#include "launch/schedule/planner.h"
#include "launch/schedule/schedule.h"
#include "report/sections/cost_section.h"
#include "report/writers/writers.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
void add_slots(const Plan& plan, std::vector<std::string>& lines) {
  for (const PlannedSlot& slot : plan.slots) {
    const auto wraps =
        texts_of(slot.wraps, [](const auto& wrap) { return wrap.plugin + " (" + wrap.phase + ")"; });
    if (slot.base == "plain" && wraps.empty()) continue;
    lines.push_back("slot " + slot.slot + ": " + slot.base +
                    (wraps.empty() ? "" : ", wrapped by " + join(wraps)));
  }
}

/// The plan of a variant in the JSON `dry`; none if there is none.
std::optional<Plan> plan_in(const Json& dry, size_t index) {
  const Json& plan = dry.at("plans").at(index);
  if (!plan.is_object() || !plan.contains("problem")) return std::nullopt;
  return plan_from_json(plan, "a plan");
}

/// Whether round 1 measures memory by which later rounds are interleaved.
bool interleaves_later(const Json& dry) {
  const Json& experiment = dry.at("experiment");
  const bool on_gpu = std::ranges::any_of(dry.at("variants"), [&](const Json& variant) {
    const auto plan = plan_in(dry, variant.at("index"));
    return plan && plan->memory && plan->memory->device != "cpu";
  });
  const bool more_rounds = !experiment.at("until").empty() || experiment.at("rounds").get<int64_t>() > 1;
  return !on_gpu && more_rounds && experiment.at("interleave") == "auto" && dry.at("variants").size() > 1;
}

/// `rate`: bytes per second of an earlier save.
void add_saving(const Plan& plan, const std::optional<double>& rate, std::vector<std::string>& lines) {
  if (const auto& saving = plan.saving) {
    lines.push_back(planned_saving_text(*saving) +
                    (rate ? "; about " + duration(saving->bytes() / *rate) + " each at " + byte_rate(*rate) +
                                ", as the last save of this machine"
                          : ""));
    if (auto weights = planned_weights_text(*saving); !weights.empty()) lines.push_back(std::move(weights));
  }
  if (plan.validation) lines.push_back(planned_validation_text(*plan.validation));
}

std::vector<std::string> plan_lines(const Plan& plan, bool interleaves_later,
                                    const std::optional<double>& write_rate) {
  const TrainSpec& problem = plan.problem;
  std::vector<std::string> lines = {"global_batch " + std::to_string(problem.global_batch) +
                                    ", micro_batch " + std::to_string(problem.micro_batch) +
                                    ", accumulation " + std::to_string(problem.accumulation) + ", seq_len " +
                                    std::to_string(problem.seq_len)};
  const bool ranks = !plan.mesh.empty();
  if (ranks) {
    const auto text = [](const MeshDimension& one) { return one.name + " " + std::to_string(one.size); };
    lines.push_back(counted(problem.world_size, "rank") + ": " + join(texts_of(plan.mesh, text), " x "));
  }
  if (const auto& p = plan.parameters)
    lines.push_back(grouped(static_cast<double>(p->count)) + " parameters, " +
                    grouped(static_cast<double>(p->trainable)) + " trained, " +
                    bytes(static_cast<double>(p->bytes)) +
                    (p->kept == p->count ? "" : "; rank 0 keeps " + grouped(static_cast<double>(*p->kept))));
  const auto& memory = plan.memory;
  if (memory) lines.push_back((ranks && !memory->rank ? "per rank: " : "") + planned_memory_text(*memory));
  const bool unknown = !memory && !plan.no_forecast.empty();
  if (unknown) lines.push_back("no memory prediction (" + plan.no_forecast + ")");
  if (interleaves_later && (unknown || (memory && !memory->bounded_by.empty())))
    lines.push_back("interleaved from round 2 on if it fits into memory, which round 1 measures");
  if (const auto cost = step_cost_from(plan.costs))
    lines.push_back(or_unknown(cost->launches, grouped) + " kernels per step, " +
                    or_unknown(cost->elementwise_bytes, bytes) + " read and written by elementwise kernels");
  add_saving(plan, write_rate, lines);
  add_slots(plan, lines);
  for (const auto& note : plan.notes) lines.push_back("note: " + note);
  return lines;
}

/// "5 rounds", "rounds until ±3 % or 300 s".
std::string rounds_text(const Json& experiment) {
  const Json& until = experiment.at("until");
  if (experiment.contains("seeds")) return counted(experiment.at("seeds").size(), "seed");
  if (until.empty()) return counted(experiment.at("rounds").get<int64_t>(), "round");
  return "rounds until ±" + percent(until.at("within").get<double>()) + " or " +
         duration(until.at("at_most_s").get<double>());
}

/// The estimated time from a stored report with this label; null if there is none.
Json estimate_of(const std::vector<Job>& jobs, const std::filesystem::path& folder) {
  if (!has_report(folder)) return nullptr;
  try {
    const TimeEstimate estimate = estimate_time(jobs, load_report(folder));
    if (estimate.known == 0) return nullptr;
    return {{"seconds", estimate.seconds}, {"known_runs", estimate.known}, {"runs", estimate.all}};
  } catch (const Error&) {  // the report is damaged
    return nullptr;
  }
}

std::string estimate_text(const Json& dry) {
  const Json& estimate = dry.at("estimate");
  if (estimate.is_null()) return "time: unknown; it can be estimated after one run with this label\n";
  const auto known = estimate.at("known_runs").get<size_t>(), all = estimate.at("runs").get<size_t>();
  return "time: about " + duration(estimate.at("seconds")) + " for " +
         (known == all ? "all runs" : std::to_string(known) + " of the runs (the others are unknown)") +
         ", from stored results of the same specs\n";
}

/// The settings of the base without those that have their defaults.
std::vector<std::string> base_lines(const Json& spec) {
  std::vector<std::string> lines;
  for (const char* key : {"model_kind", "model", "data", "train", "device", "threads", "env", "timeout_s"})
    for (auto& line : leaves_text({{key, spec.at(key)}})) lines.push_back(std::move(line));
  for (const char* key : {"validate", "save"})
    if (const Json& part = spec.at(key); part.value("every", 0) > 0)
      for (auto& line : leaves_text({{key, part}})) lines.push_back(std::move(line));
  const auto usual = leaves_text(to_json(run_spec_from_json(Json::object(), "")));
  const auto left_out = std::erase_if(lines, [&](const std::string& line) {
    return contains(usual, line) && (spec.at("model_kind") == "llama" || !line.starts_with("model."));
  });
  lines.push_back("and the defaults of " + counted(left_out, "other setting") + ", which --json has");
  if (const std::string start = spec.value("start", ""); !start.empty())
    lines.push_back("start = " + start + (spec.value("weights_only", false) ? ", its weights alone" : ""));
  for (const auto& use : spec.at("plugins")) lines.push_back("+ " + use_text(use));
  return lines;
}

/// Each plan with its "status" and, if it will not run, the "reason".
Json with_ends(const Plans& plans, const NoPlans& without_plan) {
  Json list = Json::array();
  for (const auto& plan : plans) {
    list.push_back(to_json(plan));
    if (plan) list.back()["status"] = "planned";
  }
  for (const auto& [variant, each] : without_plan) {
    Json& plan = list.at(static_cast<size_t>(variant));
    plan = each.skipped_plan ? to_json(*each.skipped_plan) : Json::object();
    plan["status"] = to_string(each.failure.status);
    plan["reason"] = each.failure.reason;
    plan["code"] = to_string(code_of(each.failure));
  }
  return list;
}

/// "planned for: H100 80GB, 79.1 GiB (sm_90)".
std::string gpu_text(const Json& dry) {
  const Json gpu = dry.value("as_gpu", Json());
  if (!gpu.is_object()) return "";
  return "planned for: " + plain_text(gpu.at("name")) + ", " + bytes(gpu.at("memory_bytes")) + " (" +
         plain_text(gpu.at("sm")) + ")\n";
}

/// An expanded and planned experiment as JSON.
Json dry_run(const Expanded& expanded, const RunRequest& request) {
  const Experiment& experiment = expanded.experiment;
  auto variants = expanded.variants;
  const Schedule schedule(variants, experiment, request.only);
  const auto folder = report_folder(request.reports, experiment);
  Interrupts interrupts;
  Json listed = Json::array(), failures = Json::array(), runs = Json::array();
  Plans plans(variants.size());
  const auto without_plan = plan_all(experiment, variants, schedule, plans,
                                     {.workers = *request.workers,
                                      .limits = {.timeout_s = request.plan_timeout_s},
                                      .as_gpu = request.as_gpu,
                                      .folder = request.as_gpu ? std::filesystem::path() : folder},
                                     interrupts, [](const Variant&) {});
  if (!without_plan) throw Interrupted(interrupts.signal(), "nothing was run");
  const auto fails = [&](int64_t variant, Status status, const std::string& reason, ErrorCode code) {
    failures.push_back({{"variant", variant},
                        {"status", to_string(status)},
                        {"reason", reason},
                        {"code", to_string(code)},
                        {"where", variants.at(static_cast<size_t>(variant)).where}});
  };
  for (const auto& [variant, each] : *without_plan)
    fails(variant, each.failure.status, each.failure.reason, code_of(each.failure));
  Needs needs(interrupts);
  for (const auto& variant : variants)
    if (variant.external && variant.has_own_runs() && schedule.wanted(variant))
      if (const auto missing = needs.missing(*variant.external); !missing.empty())
        fails(variant.index, Status::skipped, reason_of(missing), ErrorCode::missing_requirement);
  for (const auto& variant : variants) listed.push_back(to_json(variant));
  const auto jobs = schedule.all(plans);
  for (const auto& job : jobs) runs.push_back(job.id);
  const bool saves = std::ranges::any_of(plans, [](const auto& plan) { return plan && plan->saving; });
  const auto rate = saves && !request.as_gpu ? write_rate(request.reports) : std::nullopt;
  return {{"folder", folder.string()},
          {"as_gpu", request.as_gpu ? to_json(*request.as_gpu) : Json()},
          {"estimate", estimate_of(jobs, folder)},
          {"write_bytes_per_second", record::written(rate)},
          {"experiment", to_json(experiment)},
          {"variants", listed},
          {"plans", with_ends(plans, *without_plan)},
          {"failures", failures},
          {"only", schedule.only()},
          {"runs", runs}};
}

/// The same as text.
std::string dry_run_text(const Json& dry) {
  const Json& experiment = dry.at("experiment");
  std::string text = plain_text(experiment.at("name")) + ": " +
                     counted(dry.at("variants").size(), "variant") + ", " + rounds_text(experiment) + ", " +
                     counted(dry.at("runs").size(), "run") +
                     (experiment.at("until").empty() ? "" : " in the first round") + ", report in " +
                     plain_text(dry.at("folder")) + "\n";
  text += gpu_text(dry) + estimate_text(dry);
  if (const auto only = dry.at("only").get<std::vector<std::string>>(); !only.empty())
    text += "--only: " + join(only) +
            (contains(only, plain_text(experiment.at("base_name"))) ? "" : ", and the base") + "\n";
  for (const auto& [name, value] : experiment.at("arguments").items())
    text += "argument " + name + " = " + plain_text(value) + "\n";
  const auto add = [&](const std::vector<std::string>& lines) {
    for (const auto& line : lines) text += "    " + line + "\n";
  };
  const bool later = interleaves_later(dry);
  for (const auto& variant : dry.at("variants")) {
    const auto index = variant.at("index").get<size_t>();
    text += "\n" + std::to_string(index) + "  " + plain_text(variant.at("name"));
    if (const auto previous = variant.at("previous").get<int64_t>(); previous >= 0)
      text += " (" + plain_text(variant.at("group")) + ", compared with " +
              plain_text(dry.at("variants").at(static_cast<size_t>(previous)).at("name")) + ")";
    text += "\n";
    add(index == 0 ? base_lines(variant.at("spec")) : changes_text(variant));
    if (!variant.at("external").empty())
      add({"runs " +
           join(full_command(fields_of<External>().read(variant.at("external"), "a variant")), " ")});
    if (const auto same = variant.at("same_as").get<int64_t>(); same >= 0)
      text +=
          "  identical to " + plain_text(dry.at("variants").at(static_cast<size_t>(same)).at("name")) + "\n";
    else if (const auto plan = plan_in(dry, index)) {
      text += "  plan\n";
      add(plan_lines(*plan, later && variant.at("spec").at("save").value("every", 0) == 0,
                     record::taken<std::optional<double>>(dry.at("write_bytes_per_second"), "a rate")));
    }
    for (const auto& failure : dry.at("failures"))
      if (failure.at("variant") == variant.at("index"))
        text += "  " + plain_text(failure.at("status")) + ": " + plain_text(failure.at("reason")) + "\n";
  }
  if (!dry.at("runs").empty()) text += "\norder of runs\n";
  for (const auto& run : dry.at("runs")) text += "    " + plain_text(run) + "\n";
  return text;
}

std::string planned_costs(const Json& dry) {
  std::vector<CostLine> lines;
  for (const auto& variant : dry.at("variants")) {
    const auto index = variant.at("index").get<size_t>();
    CostLine line = planned_cost(plain_text(variant.at("name")), plan_in(dry, index));
    for (const auto& failure : dry.at("failures"))
      if (failure.at("variant") == variant.at("index")) line.why_not = plain_text(failure.at("status"));
    lines.push_back(std::move(line));
  }
  std::string text =
      "# " + plain_text(dry.at("experiment").at("name")) +
      ": predicted GPU cost of a step\n\nPredicted from the operators of one step and their tensor sizes: " +
      "nothing was trained or measured.\n\n" + markdown_table(cost_table(lines));
  for (const auto& remark : cost_remarks(lines)) text += "- " + remark + "\n";
  return text;
}
}  // namespace

std::filesystem::path DryRunHost::run(const Experiment& described) {
  Json dry = dry_run(prepared(described), request());
  for (const Json& failure : dry.at("failures"))
    if (failure.at("status") != to_string(Status::skipped)) all_ok_ = false;
  if (form_ == DryRunForm::text) std::cout << printable_lines(as_typed(dry_run_text(dry))) << std::flush;
  if (form_ == DryRunForm::costs) std::cout << planned_costs(dry) << std::flush;
  std::filesystem::path folder = dry.at("folder").get<std::string>();
  experiments_.push_back(std::move(dry));
  return folder;
}

void DryRunHost::finish() const {
  if (form_ == DryRunForm::json)
    std::cout << experiments_.dump(2, ' ', true, Json::error_handler_t::replace) << std::endl;
}
}  // namespace optrush
