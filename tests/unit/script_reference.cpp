#include "script_reference.h"

#include "base/text.h"
#include "script/api.h"
#include "spec/presets.h"

namespace optrush {
namespace {
/// A cell of a markdown table.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string allowed_values(const Parameter& parameter) {
  std::string text =
      "`" + parameter.type.substr(0, parameter.type.size() - (parameter.type.ends_with('?') ? 1 : 0)) + "`";
  if (!parameter.choices.empty()) text += ": `\"" + join(parameter.choices, "\"`, `\"") + "\"`";
  if (!parameter.min.is_null()) text += ", ≥ " + parameter.min.dump();
  if (!parameter.max.is_null()) text += ", ≤ " + parameter.max.dump();
  return text;
}

std::string fallback_text(const Parameter& parameter) {
  if (required(parameter)) return "required";
  return parameter.fallback.is_null() ? "—" : "`" + parameter.fallback.dump() + "`";
}

std::string table(const std::string& head, const std::vector<Parameter>& parameters,
                  bool with_defaults = true) {
  if (parameters.empty()) return {};
  std::string text =
      "| " + head +
      (with_defaults ? " | type | default | |\n|---|---|---|---|\n" : " | type | |\n|---|---|---|\n");
  for (const auto& parameter : parameters)
    text += "| `" + parameter.name + "` | " + cell(allowed_values(parameter)) + " | " +
            (with_defaults ? cell(fallback_text(parameter)) + " | " : "") + cell(parameter.doc) + " |\n";
  return text + "\n";
}

std::string signature(const Function& function) {
  if (function.property) return function.title();
  std::string names;
  for (const auto& parameter : function.parameters) {
    const std::string name = names.empty() ? parameter.name : ", " + parameter.name;
    names += required(parameter) ? name : "[" + name + "]";
  }
  return function.title() + "(" + names + ")";
}

std::string preset_table() {
  std::string text =
      "| preset | dim | layers | heads (kv) | ffn | vocabulary | |\n|---|---:|---:|---:|---:|---:|---|\n";
  for (const auto& [name, doc, spec] : llama_presets())
    text += "| `\"" + name + "\"` | " + std::to_string(spec.dim) + " | " + std::to_string(spec.n_layers) +
            " | " + std::to_string(spec.n_heads) + " (" + std::to_string(spec.n_kv_heads) + ") | " +
            std::to_string(spec.ffn_dim) + " | " + std::to_string(spec.vocab_size) + " | " + cell(doc) +
            " |\n";
  return text + "\n";
}
}  // namespace

std::string lua_reference() {
  std::string text = "## Functions\n\n";
  for (const auto& function : api().functions) {
    text += "### `" + function.title() + "`\n\n`" + signature(function) + "` → `" + function.returns +
            "`\n\n" + function.doc + "\n\n";
    text += table("argument", function.parameters);
  }
  text += "## Presets of rush.llama\n\n" + preset_table() + "## Tables\n\n";
  for (const auto& known : api().classes) {
    if (known.kind == Class::Kind::object) continue;
    text += "### `" + known.name + "`\n\n" + known.doc + "\n\n" +
            table("field", known.fields, known.kind != Class::Kind::result);
  }
  return text;
}
}  // namespace optrush
