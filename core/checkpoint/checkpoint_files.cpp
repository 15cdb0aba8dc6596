#include "checkpoint/checkpoint_files.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "base/contains.h"
#include "base/files.h"
#include "base/suggest.h"
#include "base/text.h"
#include "optrush/error.h"
#include "spec/value.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr const char *kOneFile = "model.safetensors", *kOfAdapter = "adapter_model.safetensors";
constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";
constexpr std::string_view kReadTypes[] = {"F64", "F32", "F16", "BF16"};

/// The elements of a tensor in a safetensors file.
struct StoredNumbers {
  std::string dtype;  ///< as the format writes it: "BF16"
  std::span<const std::byte> bytes;
};

template <class T>
T element(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31)
    size = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return (bits >> 15) != 0 ? -size : size;
}

struct Decoder {
  size_t bytes;
  double (*read)(const std::byte*);
};

const Decoder* decoder_of(const std::string& dtype) {
  static const std::map<std::string, Decoder> known = {
      {"F64", {8, element<double>}},
      {"F32", {4, [](const std::byte* at) -> double { return element<float>(at); }}},
      {"F16", {2, [](const std::byte* at) { return from_half(element<uint16_t>(at)); }}},
      {"BF16", {2, [](const std::byte* at) -> double {
                  return std::bit_cast<float>(uint32_t{element<uint16_t>(at)} << 16);
                }}}};
  const auto it = known.find(dtype);
  return it == known.end() ? nullptr : &it->second;
}

bool begins_with_one(const std::string& name, const std::vector<std::string>& beginnings) {
  return std::ranges::any_of(beginnings, [&](const auto& beginning) { return name.starts_with(beginning); });
}

/// Whether two tensors of equal shape hold the same numbers, each stored as F64, F32, F16 or BF16. Tensors of
/// other types must have equal type and bytes.
bool same_numbers(const StoredNumbers& a, const StoredNumbers& b) {
  if (a.dtype == b.dtype && a.bytes.size() == b.bytes.size() &&
      (a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0))
    return true;
  const Decoder *x = decoder_of(a.dtype), *y = decoder_of(b.dtype);
  if (x == nullptr || y == nullptr || a.bytes.size() / x->bytes != b.bytes.size() / y->bytes) return false;
  for (size_t i = 0; i < a.bytes.size() / x->bytes; ++i)
    if (x->read(a.bytes.data() + i * x->bytes) != y->read(b.bytes.data() + i * y->bytes)) return false;
  return true;
}

bool same_value(const CheckpointFiles::Stored& a, const CheckpointFiles::Stored& b) {
  return a.entry->shape == b.entry->shape &&
         same_numbers({a.entry->dtype, a.file->bytes(*a.entry)}, {b.entry->dtype, b.file->bytes(*b.entry)});
}

/// For messages: "'x' of model.safetensors".
std::string place_of(const CheckpointFiles::Stored& stored) {
  return "'" + stored.entry->name + "' of " + fs::path(stored.file->path()).filename().string();
}

std::string nearest_or(const std::string& name, const std::vector<std::string>& names,
                       const std::string& otherwise) {
  const std::string near = nearest(name, names);
  return near.empty() ? otherwise : "did you mean '" + near + "'?";
}

/// Reads {tensor: file}. Files must be in this folder, because the index is foreign data.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const Json json = read_json(path), map = json.is_object() ? json.value("weight_map", Json()) : Json();
  if (!map.is_object())
    throw Error(ErrorCode::invalid_file, "'weight_map' must map names to files, but is " + shown(map), {},
                path.string());
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : map.items()) {
    if (!file.is_string() || file.get<std::string>().find_first_of("/\\") != std::string::npos)
      throw Error(ErrorCode::invalid_file,
                  "'" + name + "' is in " + shown(file) + ", which is not the name of a file in this folder",
                  {}, path.string());
    files[name] = file.get<std::string>();
  }
  return files;
}

std::string cure_of_no_weights(const fs::path& folder) {
  std::error_code unknown;
  for (const auto& file : fs::directory_iterator(folder, unknown)) {
    const std::string name = file.path().filename().string();
    if (name.ends_with(".safetensors"))
      return "there is " + name + ": download model.safetensors.index.json as well";
    if (name.starts_with("pytorch_model") && name.ends_with(".bin"))
      return "there is " + name +
             ": load it with transformers and write it with save_pretrained(FOLDER, safe_serialization=True)";
  }
  return "save the model as safetensors";
}

/// Names of the text model beside encoders of images or sound.
constexpr std::string_view kTextModels[] = {"language_model", "text_model"};
/// Names of wrapper modules: of torch.compile, FSDP, activation checkpointing, DDP, DeepSpeed, and of the
/// base of an adapter.
constexpr std::string_view kWrappers[] = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
                                          "module",    "_forward_module",      "base_layer"};

bool is_text_model(std::string_view part) { return contains(kTextModels, part); }

/// A name part of a class of transformers and here.
struct NamePart {
  ParameterNames names;
  std::string_view theirs, ours;
};
/// The first part of a class occurs in all of its names that differ.
constexpr NamePart kNameParts[] = {{ParameterNames::mixtral, "block_sparse_moe", "mlp"},
                                   {ParameterNames::mixtral, "w1", "gate_proj"},
                                   {ParameterNames::mixtral, "w2", "down_proj"},
                                   {ParameterNames::mixtral, "w3", "up_proj"},
                                   {ParameterNames::deepseek, "shared_experts", "shared_expert"},
                                   {ParameterNames::gpt_oss, "router", "gate"},
                                   {ParameterNames::granite, "block_sparse_moe", "mlp"},
                                   {ParameterNames::granite, "router", "gate"},
                                   {ParameterNames::nemotron_h, "shared_experts", "shared_expert"}};
/// Names of nemotron_h below "backbone", which is "model" here.
constexpr std::pair<std::string_view, std::string_view> kBelowBackbone[] = {{"embeddings", "embed_tokens"},
                                                                            {"norm_f", "norm"}};

bool starts_with(const std::vector<std::string>& parts, const std::vector<std::string>& beginning) {
  return parts.size() > beginning.size() && std::equal(beginning.begin(), beginning.end(), parts.begin());
}
}  // namespace

CheckpointFiles::CheckpointFiles(const fs::path& folder) : folder_(folder) {
  const fs::path index = folder / "model.safetensors.index.json";
  const bool one = is_there(folder / kOneFile);
  if (!one && !is_there(index) && is_there(folder / kOfAdapter)) {
    open(kOfAdapter);
    return;
  }
  if (!one && !is_there(index))
    throw Error(ErrorCode::missing_file, "no model.safetensors and no model.safetensors.index.json",
                cure_of_no_weights(folder), folder.string());
  // transformers prefers the single file. An index whose files are all missing is ignored.
  if (is_there(index)) {
    const auto files = read_index(index);
    if (!one || std::ranges::any_of(files, [&](const auto& entry) {
          return entry.second != kOneFile && is_there(folder / entry.second);
        }))
      open_indexed(index);
  }
  if (one) {
    const size_t indexed = stored_.size();
    open(kOneFile);
    if (indexed != 0 && stored_.size() != indexed)
      throw Error(ErrorCode::invalid_file,
                  "model.safetensors has tensors that the files of model.safetensors.index.json lack",
                  "remove the files that are out of date", folder.string());
  }
}

void CheckpointFiles::open_indexed(const fs::path& index) {
  const auto files = read_index(index);
  for (const auto& [name, file] : files) {
    if (!is_there(folder_ / file))
      throw Error(ErrorCode::missing_file, "'" + name + "' is in " + file + ", which is missing",
                  "complete the download", index.string());
    open(file);
  }
  for (const auto& [name, file] : files)
    if (!files_.at(file).contains(name))
      throw Error(ErrorCode::invalid_file, "'" + name + "' is not in \"" + file + "\"",
                  "save the checkpoint again", index.string());
}

const SafetensorsView& CheckpointFiles::open(const std::string& name) {
  const auto [it, opened] = files_.try_emplace(name, folder_ / name);
  if (opened) add(it->second);
  return it->second;
}

void CheckpointFiles::add(const SafetensorsView& file) {
  for (const auto& name : file.names()) {
    const Stored stored{&file, &file.entry(name)};
    const auto [it, is_new] = stored_.try_emplace(parameter_name(name), stored);
    if (!is_new && !same_value(it->second, stored))
      refuse(
          place_of(it->second) + " and " + place_of(stored) + " have different values for the same parameter",
          "remove the file or the tensor that is out of date");
  }
}

void CheckpointFiles::refuse(const std::string& what, const std::string& cure) const {
  throw Error(ErrorCode::invalid_file, what, cure, folder_.string());
}

const CheckpointFiles::Stored* CheckpointFiles::find(std::string_view parameter) const {
  auto found = stored_.find(parameter);
  if (found == stored_.end() && parameter == kEmbedding) found = stored_.find(kHead);
  return found == stored_.end() ? nullptr : &found->second;
}

void CheckpointFiles::check_head(bool tied) const {
  const auto head = stored_.find(kHead), embedding = stored_.find(kEmbedding);
  const bool both = head != stored_.end() && embedding != stored_.end();
  if (tied && both && !same_value(head->second, embedding->second))
    refuse(
        "config.json ties the head to the embedding (tie_word_embeddings), but " + place_of(head->second) +
            " has a different value. Versions of transformers differ in the value that they use",
        "to train both, set \"tie_word_embeddings\": false in config.json; to tie them, remove the tensor");
  if (!tied && !both)
    refuse(std::string("the checkpoint has no '") + (head == stored_.end() ? kHead : kEmbedding) + "'",
           "if the head is tied to the embedding, set \"tie_word_embeddings\": true in config.json");
}

void CheckpointFiles::check_complete(const std::vector<NamedShape>& model) const {
  const bool has_embedding = std::ranges::any_of(model, [](const auto& p) { return p.name == kEmbedding; });
  const bool has_head = std::ranges::any_of(model, [](const auto& p) { return p.name == kHead; });
  for (const auto& [name, shape] : model) {
    const Stored* stored = find(name);
    if (stored == nullptr && has_mxfp4({name, shape})) continue;
    if (stored == nullptr) {
      if (name == kHead) check_head(/*tied=*/false);
      std::vector<std::string> names;  // names that exist in the file can't be misspellings
      for (const auto& [known, entry] : stored_)
        if (std::ranges::find(model, known, &NamedShape::name) == model.end()) names.push_back(known);
      refuse("the checkpoint has no '" + name + "'",
             nearest_or(name, names, "check that the weights belong to this config.json"));
    }
    if (stored->entry->shape != shape)
      refuse("'" + name + "' has shape " + Json(stored->entry->shape).dump() + " in the checkpoint, but " +
                 Json(shape).dump() + " by config.json",
             "check that the weights belong to this config.json");
    if (const std::string& type = stored->entry->dtype;
        std::ranges::find(kReadTypes, type) == std::end(kReadTypes))
      throw Error(ErrorCode::unsupported, "'" + name + "' is stored as " + type + ", which is not supported",
                  "supported are F64, F32, F16 and BF16: save the model without quantization",
                  folder_.string());
  }
  if (has_embedding) check_head(!has_head);
}

bool CheckpointFiles::has_mxfp4(const NamedShape& tensor) const {
  const auto [blocks, scales] = mxfp4_names(tensor.name);
  const Stored *packed = find(blocks), *scaled = find(scales);
  if (packed == nullptr || scaled == nullptr || tensor.shape.size() != 3) return false;
  const std::vector<int64_t> of_scales = {tensor.shape[0], tensor.shape[2], tensor.shape[1] / 32};
  std::vector<int64_t> of_blocks = of_scales;
  of_blocks.push_back(16);
  if (packed->entry->shape != of_blocks || scaled->entry->shape != of_scales ||
      packed->entry->dtype != "U8" || scaled->entry->dtype != "U8" || tensor.shape[1] % 32 != 0)
    refuse(
        "'" + blocks + "' and '" + scales + "' are not a tensor " + Json(tensor.shape).dump() + " in MXFP4",
        "check that the weights belong to this config.json");
  return true;
}

std::vector<std::string> CheckpointFiles::unknown(const std::vector<std::string>& tensors,
                                                  const IgnoredTensors& ignored) const {
  std::set<std::string> known(tensors.begin(), tensors.end());
  for (const std::string& tensor : tensors) {
    const auto [blocks, scales] = mxfp4_names(tensor);
    if (known.contains(tensor) && find(blocks) != nullptr && find(tensor) == nullptr)
      known.insert({blocks, scales});
  }
  std::vector<std::string> unknown;
  for (const auto& [name, stored] : stored_) {
    // Rotary tables that older versions stored, and the second copy of a tied embedding.
    const bool redundant = name.ends_with(".rotary_emb.inv_freq") || name == kHead ||
                           begins_with_one(name, ignored.beginnings) ||
                           (ignored.beside_language_model &&
                            std::ranges::none_of(split(stored.entry->name, "."), is_text_model));
    if (!known.contains(name) && !redundant) unknown.push_back(name);
  }
  return unknown;
}

void CheckpointFiles::refuse_unknown(const std::string& name,
                                     const std::vector<std::string>& parameters) const {
  const bool adapter = name.find(".lora_") != std::string::npos;
  refuse("the checkpoint has '" + name + "', which the model of its config.json does not",
         adapter
             ? "merge the adapter into the model first: PEFT's merge_and_unload()"
             : nearest_or(name, parameters, "if the model does not need it, remove it from the checkpoint"));
}

std::string parameter_name(std::string_view stored) {
  std::vector<std::string> parts = split(stored, ".");
  std::erase_if(parts, [](const auto& part) { return contains(kWrappers, part) || is_text_model(part); });
  if (starts_with(parts, {"base_model", "model"})) parts.erase(parts.begin(), parts.begin() + 2);
  if (starts_with(parts, {"backbone"})) parts.front() = "model";
  const size_t below = starts_with(parts, {"model"}) ? 1 : 0;
  for (const auto& [theirs, ours] : kBelowBackbone)
    if (parts.size() == below + 2 && parts[below] == theirs) parts[below] = ours;
  // A user's class that stores the model as self.model.
  if (starts_with(parts, {"model", "model"}) || starts_with(parts, {"model", "lm_head"}))
    parts.erase(parts.begin());
  for (const char* of_model : {"layers", "embed_tokens", "norm", "embed_tokens_per_layer",
                               "per_layer_model_projection", "per_layer_projection_norm"})
    if (starts_with(parts, {of_model})) parts.insert(parts.begin(), "model");
  const bool of_mixtral = std::ranges::count(parts, kNameParts[0].theirs) != 0;
  for (auto& part : parts)
    for (const auto& [names, theirs, ours] : kNameParts)
      if (part == theirs && (names != ParameterNames::mixtral || of_mixtral)) part = ours;
  // PEFT adds the name of the adapter: "lora_A.default.weight", "lora_magnitude_vector.default.weight".
  for (size_t i = 0; i + 1 < parts.size(); ++i)
    if (parts[i].starts_with("lora_") && parts[i + 1] == "default")
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  if (parts.size() > 1 && parts[parts.size() - 2] == "lora_magnitude_vector") parts.pop_back();
  return join(parts, ".");
}

std::string stored_name(std::string_view parameter, ParameterNames names) {
  std::vector<std::string> parts = split(parameter, ".");
  const bool of_experts = std::ranges::count(parts, "experts") != 0 || std::ranges::count(parts, "gate") != 0;
  for (auto& part : parts)
    for (const auto& [of, theirs, ours] : kNameParts)
      if (of == names && part == ours && (of_experts || names != ParameterNames::mixtral)) part = theirs;
  if (names == ParameterNames::nemotron_h && starts_with(parts, {"model"})) {
    parts[0] = "backbone";
    for (const auto& [theirs, ours] : kBelowBackbone)
      if (parts[1] == ours) parts[1] = theirs;
  }
  return join(parts, ".");
}

Mxfp4Names mxfp4_names(std::string_view tensor) {
  return {std::string(tensor) + "_blocks", std::string(tensor) + "_scales"};
}
}  // namespace optrush
