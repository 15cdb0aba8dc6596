// Models and data.
#include <algorithm>
#include <cctype>

#include "checkpoint/check_checkpoint.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/hugging_face_model.h"
#include "machine/torch_folder.h"
#include "script/functions.h"
#include "spec/data_line.h"
#include "spec/presets.h"
#include "spec/spec_json.h"

namespace optrush::functions {
namespace fs = std::filesystem;
namespace {
fs::path existing(const ScriptContext& context, const std::string& path) {
  fs::path found = context.resolve(path);
  if (!fs::exists(found))
    throw Error(ErrorCode::missing_file, "no file or folder '" + found.string() + "'",
                context.start_of(path));
  return found;
}

DataSpec validated(const DataSpec& data, const std::string& where) {
  return fields_of<DataSpec>().read(to_json(data), where);
}

/// Whether a text is a name on the Hugging Face hub: "meta-llama/Llama-3.2-1B".
bool is_hub_name(const std::string& text) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  return std::ranges::count(text, '/') == 1 && text.front() != '/' && text.back() != '/' && text[0] != '.' &&
         std::ranges::all_of(text, [&](char c) { return plain(static_cast<unsigned char>(c)) || c == '/'; });
}

struct Decoder {
  LlamaSpec llama;
  int64_t max_positions = 0;
};

Decoder decoder_of(const Json& fields, const std::string& where) {
  const LlamaSpec given = llama_from_json(fields, where);
  if (given.checkpoint.empty()) return {given, 0};
  const HuggingFaceModel found = read_hugging_face_model(given.checkpoint);
  return {found.llama, found.max_positions};
}

int64_t count_parameters(const LlamaSpec& llama) {
  int64_t count = 0;
  for (const NamedShape& parameter : llama_parameters(llama)) {
    int64_t elements = 1;
    for (const int64_t size : parameter.shape) elements *= size;
    count += elements;
  }
  return count;
}
}  // namespace

Object llama(ScriptContext&, const Call& call) {
  const auto* preset = call.arguments.find("preset");
  const auto* overrides = call.arguments.find("fields");
  if (preset != nullptr && preset->is_table()) {
    if (overrides != nullptr)
      throw Error(ErrorCode::conflict, "rush.llama: two tables of fields",
                  "give the name of a preset and one table, or one table");
    std::swap(preset, overrides);
  }
  Json fields = preset == nullptr ? to_json(LlamaSpec{}) : to_json(llama_preset(preset->text()));
  // Field by field: { rope_scaling = { factor = 8 } } keeps the other fields of a preset's rope_scaling.
  if (overrides != nullptr) merge(fields, to_json(*overrides, "fields"));
  return ModelChoice{"llama", validate_model("llama", fields, call.where)};
}

Object one_alone(ScriptContext&, const Call& call) {
  Json fields = Json::object();
  if (const auto* given = call.arguments.find("fields")) fields = to_json(*given, "fields");
  fields["op"] = call.arguments.at("op").text();
  return ModelChoice{call.name, validate_model(call.name, fields, call.where)};
}

Object checkpoint(ScriptContext& context, const Call& call) {
  const std::string given = call.arguments.at("folder").text();
  const fs::path folder = context.resolve(given);
  if (is_hub_name(given) && !fs::exists(folder)) {
    const std::string name = given.substr(given.find('/') + 1);
    const std::string use = context.is_given(given) ? "name that folder instead of '" + given + "'"
                                                    : "use rush.checkpoint \"" + name + "\"";
    throw Error(
        ErrorCode::missing_file,
        "there is no folder '" + folder.string() + "'; names on the Hugging Face hub are not downloaded",
        "hf download " + given + " --local-dir " + name +
            "   (older versions: huggingface-cli download), then " + use);
  }
  if (!fs::is_regular_file(folder / "config.json"))
    throw Error(
        ErrorCode::missing_file, "no config.json in '" + folder.string() + "'",
        "give a Hugging Face folder with config.json and safetensors files; " + context.start_of(given));
  check_checkpoint(folder, call.where);
  return ModelChoice{"llama", {{"checkpoint", folder.string()}}};
}

Object sizes(ScriptContext&, const Call& call) {
  const ModelChoice& model = call.arguments.at("model").object<ModelChoice>();
  if (model.kind != "llama")
    throw Error(ErrorCode::unsupported, "rush.sizes: a model of kind '" + model.kind + "' is not a decoder",
                "give a model from rush.llama or rush.checkpoint");
  const auto [llama, max_positions] = decoder_of(model.fields, call.where);
  return Json{{"dim", llama.dim},
              {"n_layers", llama.n_layers},
              {"n_heads", llama.n_heads},
              {"n_kv_heads", llama.n_kv_heads},
              {"head_dim", llama.head_size()},
              {"ffn_dim", llama.ffn_dim},
              {"vocab_size", llama.vocab_size},
              {"tie_embeddings", llama.tie_embeddings},
              {"max_positions", max_positions},
              {"parameters", count_parameters(llama)}};
}

Object random(ScriptContext&, const Call& call) { return validated({.kind = "random"}, call.where); }

Object files(ScriptContext& context, const Call& call) {
  DataSpec data{.kind = call.name};
  const auto& source = call.arguments.at("source");
  if (source.is<Corpus>()) {
    data.path = source.object<Corpus>().path;
    data.extensions = source.object<Corpus>().extensions;
  } else {
    data.path = existing(context, source.text());
    if (data.kind != "text" && fs::is_regular_file(data.path)) check_lines(data.path, data.kind, call.where);
  }
  if (const auto* options = call.arguments.find("options"))
    options->table().read("extensions", data.extensions);
  return validated(data, call.where);
}

Object tokens(ScriptContext& context, const Call& call) {
  const fs::path file = existing(context, call.arguments.at("file").text());
  if (!fs::is_regular_file(file))
    throw Error(ErrorCode::missing_file, "'" + file.string() + "' is not a file",
                "give a token file (docs/reference/formats.md)");
  return validated({.kind = "tokens", .path = file}, call.where);
}

Object corpus(ScriptContext&, const Call& call) {
  const Corpus corpus{
      .name = call.arguments.at("name").text(), .path = torch_folder() / "include", .extensions = {".h"}};
  if (!fs::is_directory(corpus.path))
    throw Error(ErrorCode::missing_file, "corpus '" + corpus.name + "': no folder '" + corpus.path + "'",
                "LibTorch is missing there; run the set-up again, or give rush.text a different folder");
  return corpus;
}
}  // namespace optrush::functions
