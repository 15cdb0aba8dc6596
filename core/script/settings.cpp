#include "script/settings.h"

#include <algorithm>

#include "optrush/error.h"

namespace optrush {
namespace {
constexpr size_t kLongestLine = 80;

Json model_of(const LuaValue& value) {
  if (!value.is<Model>()) return to_json(value, "model");
  // A whole model takes the place of the one before, of its checkpoint as well.
  Json model = {{"checkpoint", ""}};
  model.update(value.object<Model>().fields);
  return model;
}
}  // namespace

Json settings_of(const LuaTable& table) {
  Json settings = Json::object();
  if (const auto* model = table.find("model")) settings["model"] = model_of(*model);
  if (const auto* data = table.find("data")) settings["data"] = to_json(data->object<DataSpec>());
  if (const auto* train = table.find("train")) settings["train"] = to_json(*train, "train");
  if (const auto* device = table.find("device")) settings["device"] = device->json();
  if (const auto* threads = table.find("threads")) settings["threads"] = threads->json();
  if (const auto* timeout = table.find("timeout")) settings["timeout_s"] = timeout->json();
  return settings;
}

std::string one_line(const std::string& text, const std::string& what) {
  const bool control =
      std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (text.empty() || text.size() > kLongestLine || control)
    throw Error(what + " must be one line of 1 to 80 bytes", "it stands in a table of the report");
  return text;
}
}  // namespace optrush
