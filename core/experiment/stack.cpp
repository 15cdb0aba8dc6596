#include "experiment/stack.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "optrush/error.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
void check_stacks(const std::vector<Variant>& variants, const Catalogue& catalogue) {
  std::set<std::string> known;  // a rung has the conflicts of the rungs below it
  std::vector<Error> errors;
  for (const Variant& variant : variants) {
    for (const PluginUse& use : variant.spec.plugins) catalogue.at(use.name);  // errors here need no rung
    for (const Error& e : catalogue.errors_of(variant.spec.plugins, variant.added))
      if (known.insert(e.message()).second)
        errors.emplace_back(e.code(), "rung '" + variant.name + "': " + e.message(), e.cure(), variant.where);
  }
  if (errors.empty()) return;
  if (errors.size() == 1) throw errors.front();
  std::string all = "the stacks of plugins have " + counted(errors.size(), "error") + ":";
  for (const Error& each : errors) all += std::string("\n") + each.what();
  const Error& e = errors.front();
  throw Error(e.code(), all);
}

void check_dtype(const Json& settings, const std::function<Catalogue()>& catalogue,
                 const std::string& where) {
  const Json::json_pointer place("/train/dtype");
  const Json dtype = settings.contains(place) ? settings.at(place) : Json();
  const auto schemas = fields_of<TrainSpec>().options();
  const auto schema = std::ranges::find(schemas, "dtype", &OptionSchema::name);
  if (!dtype.is_string() || std::ranges::count(schema->choices, dtype.get<std::string>()) != 0) return;
  const Catalogue known = catalogue();
  for (const auto& plugin : known.plugins())
    for (const auto& option : plugin.options)
      if (option.name == "dtype" && std::ranges::count(option.choices, dtype.get<std::string>()) != 0)
        throw Error(ErrorCode::invalid_value,
                    "train.dtype must be " + allowed(*schema) + ", but is " + dtype.dump() +
                        ": it sets the type of the parameters",
                    "to compute in " + dtype.get<std::string>() + ", stack { \"" + plugin.name +
                        "\", { dtype = " + dtype.dump() + " } }",
                    where);
}
}  // namespace optrush
