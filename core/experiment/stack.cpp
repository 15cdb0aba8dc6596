#include "experiment/stack.h"

#include <algorithm>

#include "optrush/error.h"
#include "spec/spec_fields.h"
#include "spec/value.h"

namespace optrush {
void check_stack(const Variant& variant, const Catalogue& catalogue) {
  for (const PluginUse& use : variant.spec.plugins) catalogue.at(use.name);  // errors here need no rung
  try {
    catalogue.check_stack(variant.spec.plugins, variant.added);
  } catch (const Error& e) {
    throw Error(e.code(), "rung '" + variant.name + "': " + e.message(), e.cure(), variant.where);
  }
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
