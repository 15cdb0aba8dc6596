#pragma once
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "checkpoint/hugging_face_model.h"
#include "io/safetensors.h"
#include "optrush/param.h"

namespace optrush {
/// A checkpoint folder as transformers writes it.
class HuggingFace : public ::testing::Test {
 protected:
  /// Writes config.json of a small Llama, changed by `patch`. A null removes the field.
  HuggingFaceModel model(const Json& patch = Json::object()) const {
    Json json = {{"architectures", {"LlamaForCausalLM"}},
                 {"vocab_size", 97},
                 {"hidden_size", 64},
                 {"intermediate_size", 113},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4}};
    json.merge_patch(patch);
    write_json(folder_ / "config.json", json);
    return read_hugging_face_model(folder_);
  }
  LlamaSpec config(const Json& patch = Json::object()) const { return model(patch).llama; }
  /// As config(), for a Mistral with "sliding_window": null. merge_patch would remove the null.
  std::filesystem::path mistral_folder(const Json& patch) const {
    config(patch);
    Json json = read_json(folder_ / "config.json");
    json["architectures"] = {"MistralForCausalLM"};
    json["sliding_window"] = nullptr;
    if (patch.contains("num_key_value_heads")) json["num_key_value_heads"] = patch["num_key_value_heads"];
    write_json(folder_ / "config.json", json);
    return folder_;
  }
  static Param param(const std::string& name, std::vector<int64_t> shape) {
    return {.name = name, .shape = std::move(shape)};
  }
  void shard(const std::string& file, const std::vector<std::string>& names) const {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const auto& name : names)
      tensors.emplace_back(name, at::full({2, 3}, static_cast<double>(name.size())));
    write_safetensors(folder_ / file, tensors);
  }
  void index(const Json& weight_map) const {
    write_json(folder_ / "model.safetensors.index.json", {{"weight_map", weight_map}});
  }

  const optrush::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};
}  // namespace optrush
