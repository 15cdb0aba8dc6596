#include "printing_host.h"
#include "spec/spec_json.h"

#include <cstdio>

namespace optrush::testing {
namespace {
void print(const std::string& line) { std::printf("%s\n", line.c_str()); }

/// The differences of the base from a base without settings.
std::string printed_settings(const RunSpec& spec) {
  RunSpec plain;
  plain.experiment = spec.experiment;
  plain.rung = spec.rung;
  plain.model = spec.model_kind == kProgramKind ? Json::object() : to_json(LlamaSpec{});
  plain.plugins = spec.plugins;
  plain.plugin_path = spec.plugin_path;
  std::string text;
  for (const Json& change : Json::diff(to_json(plain), to_json(spec)))
    text += " " + change["path"].get<std::string>() +
            (change.contains("value") ? "=" + change["value"].dump() : " gone");
  return text;
}
}  // namespace

std::string line_of(const Variant& variant) {
  std::string text = variant.group + " " + std::to_string(variant.index) + " '" + variant.name + "'";
  if (variant.previous >= 0) text += " over " + std::to_string(variant.previous);
  text += ":";
  for (const auto& use : variant.added)
    text += " +" + use.name + (use.options.empty() ? "" : " " + use.options.dump());
  for (const auto& name : variant.removed) text += " -" + name;
  for (const auto& [key, value] : variant.changed.items()) text += " " + key + "=" + value.dump();
  if (variant.expect) text += " expecting " + record::written(*variant.expect).dump();
  if (variant.external) {
    Json external = record::written(*variant.external);
    const auto shorten = [](Json& files) {
      for (auto& [file, hash] : files.items())
        hash = std::to_string(hash.get<std::string>().size()) + " digits";
    };
    shorten(external["files"]);
    for (Json& change : external["changes"]) shorten(change["files"]);
    text += " by " + external.dump();
  }
  if (variant.previous < 0) text += printed_settings(variant.spec);
  return text + (variant.where.empty() ? "" : " (" + variant.where + ")");
}

std::filesystem::path PrintingHost::run(const Experiment& experiment) {
  print("run " + experiment.name + "/" + experiment.label + ", rounds " + std::to_string(experiment.rounds));
  if (!experiment.seeds.empty()) print("seeds: " + Json(experiment.seeds).dump());
  if (experiment.stop_behind > 0) print("stop behind: " + Json(experiment.stop_behind).dump());
  if (!experiment.question.empty()) print("question: " + experiment.question);
  if (experiment.price_per_hour > 0)
    print("price: " + Json(experiment.price_per_hour).dump() + " " + experiment.currency);
  if (experiment.target_loss > 0) print("target loss: " + Json(experiment.target_loss).dump());
  if (experiment.trace) print("traced");
  for (const auto& variant : expand(experiment)) print(line_of(variant));
  return "reports/" + experiment.name + "/" + experiment.label;
}

std::optional<int64_t> PrintingHost::predicted_peak(const RunSpec& spec) {
  for (const auto& use : spec.plugins)
    if (use.name == "lora") return std::nullopt;
  return spec.train.micro_batch * spec.train.seq_len;
}

void PrintingHost::report(const std::filesystem::path& folder) { print("report of " + folder.string()); }
}  // namespace optrush::testing
