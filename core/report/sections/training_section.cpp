#include "analysis/numbers/format.h"
#include "base/text.h"
#include "report/sections/document.h"
#include "spec/read_fields.h"
#include "spec/spec_json.h"

namespace optrush {
std::string plain_text(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> leaves_text(const Json& json, const std::string& prefix) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : json.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (value.is_object() && !value.empty())
      for (auto& line : leaves_text(value, name)) lines.push_back(std::move(line));
    else
      lines.push_back(name + " = " + plain_text(value));
  }
  return lines;
}

std::string use_text(const Json& use) {
  const auto options = texts_of(use.at("options").items(), [](const auto& option) {
    return option.key() + " = " + plain_text(option.value());
  });
  return use.at("name").get<std::string>() + (options.empty() ? "" : " { " + join(options) + " }");
}

std::vector<std::string> changes_text(const Json& variant) {
  std::vector<std::string> lines;
  for (const auto& use : variant.at("added")) lines.push_back("+ " + use_text(use));
  for (const auto& plugin : variant.at("removed")) lines.push_back("- " + plain_text(plugin));
  for (auto& line : leaves_text(variant.at("changed"))) lines.push_back(std::move(line));
  return lines;
}

namespace {
/// The non-empty fields of a part of a spec: "dim = 256, n_layers = 4".
std::string fields_of(const Json& part) {
  std::vector<std::string> fields = leaves_text(part);
  std::erase_if(fields, [](const std::string& field) {
    return field.ends_with(" = ") || field.ends_with(" = []") || field.ends_with(" = {}");
  });
  return join(fields);
}

std::string stack_of(const Json& plugins) {
  return plugins.empty() ? "none" : join(texts_of(plugins, use_text));
}

/// A program trains its own model, so of the spec only its parts for any training are shown.
Table table_of_program(const External& program, const Json& spec) {
  Table table({"base", ""});
  table.rows.push_back({"program", program_name(program)});
  table.rows.push_back({"command", join(full_command(program), " ")});
  if (const std::string variables = fields_of(spec.at("env")); !variables.empty())
    table.rows.push_back({"env", variables});
  table.rows.push_back({"train", fields_of(spec.at("train"))});
  return table;
}

/// The changes of a rung relative to the one below.
std::vector<std::string> changes_of(const Variant& variant, const Variant& below) {
  const std::optional<External>& program = variant.external;
  if (!program) return changes_text(to_json(variant));
  if (!below.external || below.external->command != program->command) return {"another program"};
  std::vector<std::string> lines;
  const auto missing_in = [](const ProgramChange& change, const External& other) {
    return std::ranges::find(other.changes, change) == other.changes.end();
  };
  for (const ProgramChange& change : program->changes) {
    if (!missing_in(change, *below.external)) continue;
    if (!change.command.empty()) lines.push_back("command = " + join(change.command, " "));
    if (!change.args.empty()) lines.push_back("+ " + join(change.args, " "));
  }
  for (const ProgramChange& change : below.external->changes)
    if (missing_in(change, *program)) lines.push_back("- " + change.rung);
  for (auto& line : changes_text(to_json(variant))) lines.push_back(std::move(line));
  return lines;
}

Table table_of_base(const Analysis& a) {
  const Json spec = to_json(a.variants.front().spec);
  if (a.experiment.program) return table_of_program(*a.experiment.program, spec);
  Table table({"base", ""});
  table.rows.push_back({"model", plain_text(spec.at("model_kind")) + ": " + fields_of(spec.at("model"))});
  if (!a.plans.empty() && a.plans.front() && a.plans.front()->parameters) {
    const PlannedParameters& parameters = *a.plans.front()->parameters;
    table.rows.push_back({"parameters", grouped(static_cast<double>(parameters.count)) + ", of which " +
                                            grouped(static_cast<double>(parameters.trainable)) +
                                            " are trained"});
  }
  table.rows.push_back({"data", fields_of(spec.at("data"))});
  if (const auto vocabulary = number(spec.at("model"), "vocab_size");
      vocabulary && a.experiment.base.data.kind == "text")
    table.rows.push_back(
        {"tokens", "bytes: at most 256 of the " + grouped(*vocabulary) + " entries of the vocabulary occur"});
  table.rows.push_back({"train", fields_of(spec.at("train"))});
  for (const char* part : {"validate", "save"})
    if (const Json& fields = spec.at(part); fields.value("every", 0) > 0)
      table.rows.push_back({part, fields_of(fields)});
  if (const std::string start = spec.value("start", ""); !start.empty())
    table.rows.push_back(
        {spec.value("weights_only", false) ? "weights from" : "continues from", plain_text(start)});
  if (const double target = a.experiment.target_loss; target > 0)
    table.rows.push_back({"target loss", exact_number(target)});
  table.rows.push_back({"plugins", stack_of(spec.at("plugins"))});
  return table;
}
}  // namespace

Section training_section(const Analysis& a) {
  if (a.variants.empty()) return {};
  Section section{.title = "What was trained", .lead = "The base, and the changes of each rung."};
  section.table = table_of_base(a);
  for (const Variant& variant : a.variants) {
    if (variant.previous < 0) continue;
    const Variant& below = a.variant(variant.previous);
    const std::string changes = join(changes_of(variant, below));
    section.bullets.push_back(name_in_text(variant.name) + ", relative to " + name_in_text(below.name) +
                              ": " + (changes.empty() ? "no change" : changes));
  }
  return section;
}
}  // namespace optrush
