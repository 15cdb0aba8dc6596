#include "peft_folder.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>

#include "optrush/error.h"

namespace optrush::lora {
namespace {
/// Fields that change a training or describe the file, but not the function of the adapter. The tensors of
/// the file show which modules it has.
const std::set<std::string> kNotOfFunction = {"auto_mapping",   "base_model_name_or_path",
                                              "inference_mode", "lora_dropout",
                                              "megatron_core",  "peft_type",
                                              "peft_version",   "qalora_group_size",
                                              "revision",       "target_modules",
                                              "task_type"};

/// Fields and the options with their value.
constexpr std::pair<const char*, const char*> kOptions[] = {{"r", "rank"},
                                                            {"lora_alpha", "alpha"},
                                                            {"use_rslora", "use_rslora"},
                                                            {"use_dora", "use_dora"},
                                                            {"rank_pattern", "rank_pattern"},
                                                            {"alpha_pattern", "alpha_pattern"},
                                                            {"modules_to_save", "modules_to_save"}};

/// Null, false, "none" and empty lists: what a field has if its feature is not used.
bool is_unused(const Json& value) {
  return value.is_null() || value == false || value == "none" || (value.is_structured() && value.empty());
}

/// Lists of names and tables are compared in any order.
bool same(const Json& a, const Json& b) {
  if (is_unused(a) || is_unused(b)) return is_unused(a) && is_unused(b);
  if (a.is_array() && b.is_array()) {
    const auto names = [](const Json& list) { return std::set<Json>(list.begin(), list.end()); };
    return names(a) == names(b);
  }
  return nlohmann::json(a) == nlohmann::json(b);
}

std::string in_lua(const Json& value) {
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items())
    text +=
        (text.empty() ? "" : ", ") + (value.is_object() ? "[" + Json(key).dump() + "] = " : "") + item.dump();
  return "{ " + text + " }";
}

Json read(const std::string& path) {
  std::ifstream file(path);
  Json config = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    throw Error(file.is_open() ? ErrorCode::invalid_file : ErrorCode::missing_file,
                file.is_open() ? "no JSON object" : "there is no adapter_config.json",
                "give a folder that PEFT's save_pretrained or optrush weights wrote", path);
  return config;
}
}  // namespace

void check_adapter(const std::string& folder, const Json& config) {
  const std::string path = folder + "/adapter_config.json";
  const Json theirs = read(path);
  if (theirs.value("peft_type", Json()) != "LORA")
    throw Error(ErrorCode::unsupported,
                "the adapter's peft_type is " + theirs.value("peft_type", Json()).dump(),
                "give a LoRA adapter", path);
  std::string to_set;
  std::set<std::string> known = kNotOfFunction;
  for (const auto& [field, option] : kOptions) {
    known.insert(field);
    const Json value = theirs.value(field, Json());
    if (same(value, config.at(field))) continue;
    to_set += (to_set.empty() ? "" : ", ") + std::string(option) + " = " +
              (value.is_null() ? config.at(field).is_structured() ? "{}" : "false" : in_lua(value));
  }
  if (!to_set.empty())
    throw Error(ErrorCode::invalid_value, "the adapter was made with other options", "set " + to_set, path);
  for (const auto& [field, value] : theirs.items()) {
    // A string is a start that also changes the matrices of the model, such as PiSSA's.
    const bool kept = field == "init_lora_weights" && (value.is_boolean() || value == "gaussian");
    if (!known.contains(field) && !kept && !is_unused(value))
      throw Error(ErrorCode::unsupported,
                  "the adapter has " + field + " = " + value.dump() + ", which is not supported",
                  "merge it with PEFT's merge_and_unload(), or train one without " + field, path);
  }
}
}  // namespace optrush::lora
