#include <utility>

#include "optrush/error.h"
#include "spec/spec_fields.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
constexpr int64_t kLargest = int64_t{1} << 31;  // products of two dimensions stay far from overflow

void check_llama(const LlamaSpec& spec, const std::string& where) {
  const auto refuse = [&](const std::string& what, const std::string& cure) {
    throw Error(what, cure, where);
  };
  const auto text = [](int64_t n) { return std::to_string(n); };
  if (spec.head_dim == 0 && spec.dim % spec.n_heads != 0)
    refuse(
        "model.dim (" + text(spec.dim) + ") is not a multiple of model.n_heads (" + text(spec.n_heads) + ")",
        "change one of them, or give model.head_dim");
  if (spec.head_size() % 2 != 0)
    refuse("a head of " + text(spec.head_size()) + " dimensions cannot be rotated",
           "rotary embedding needs pairs of dimensions: make model.head_dim, or model.dim / model.n_heads, "
           "even");
  if (spec.n_heads % spec.n_kv_heads != 0)
    refuse("model.n_heads (" + text(spec.n_heads) + ") is not a multiple of model.n_kv_heads (" +
               text(spec.n_kv_heads) + ")",
           "change one of them: each key/value head must serve the same number of query heads");
  if (const auto& rope = spec.rope_scaling; rope.factor != 1 && rope.low_freq_factor >= rope.high_freq_factor)
    refuse("model.rope_scaling.low_freq_factor must be below high_freq_factor", "Llama 3.1 uses 1 and 4");
}
}  // namespace

const Fields<RopeScaling>& rope_scaling_fields() {
  using T = RopeScaling;
  static const auto fields =
      Fields<T>()
          .optional(&T::factor,
                    {.name = "factor", .doc = "scaling of the low frequencies; 1: none", .min = 1})
          .optional(&T::low_freq_factor,
                    {.name = "low_freq_factor",
                     .doc = "wavelengths above original_max_position / low_freq_factor are scaled",
                     .min = 0})
          .optional(&T::high_freq_factor,
                    {.name = "high_freq_factor",
                     .doc = "wavelengths below original_max_position / high_freq_factor are kept",
                     .min = 0})
          .optional(&T::original_max_position, {.name = "original_max_position",
                                                .doc = "context length of the original training",
                                                .min = 1,
                                                .max = kLargest});
  return fields;
}

const Fields<LlamaSpec>& llama_fields() {
  using T = LlamaSpec;
  static const auto fields =
      Fields<T>()
          .optional(
              &T::vocab_size,
              {.name = "vocab_size", .doc = "number of tokens in the vocabulary", .min = 2, .max = kLargest})
          .optional(&T::dim,
                    {.name = "dim", .doc = "width of the residual stream", .min = 1, .max = kLargest})
          .optional(&T::n_layers, {.name = "n_layers", .doc = "blocks", .min = 1, .max = 10000})
          .optional(&T::n_heads,
                    {.name = "n_heads", .doc = "number of query heads", .min = 1, .max = kLargest})
          .optional(&T::n_kv_heads, {.name = "n_kv_heads",
                                     .doc = "number of key/value heads; must divide n_heads",
                                     .min = 1,
                                     .max = kLargest})
          .optional(&T::head_dim, {.name = "head_dim",
                                   .doc = "width of a head, even; 0: dim / n_heads",
                                   .min = 0,
                                   .max = kLargest})
          .optional(&T::ffn_dim,
                    {.name = "ffn_dim", .doc = "inner width of the SwiGLU", .min = 1, .max = kLargest})
          .optional(&T::norm, {.name = "norm",
                               .doc = "norm before attention, SwiGLU and head",
                               .choices = {"rmsnorm", "layernorm", "layernorm_without_parameters"}})
          .optional(&T::norm_eps,
                    {.name = "norm_eps", .doc = "epsilon added to the variance in a norm", .min = 0})
          .optional(&T::rope_theta, {.name = "rope_theta", .doc = "base of the rotary frequencies", .min = 1})
          .nested(&T::rope_scaling, rope_scaling_fields(),
                  {.name = "rope_scaling", .doc = "Llama 3 rescaling of the rotary frequencies"})
          .optional(&T::tie_embeddings,
                    {.name = "tie_embeddings", .doc = "use the embedding as the weight of the head"})
          .optional(&T::init_std,
                    {.name = "init_std", .doc = "standard deviation of the initial weights", .min = 0})
          .optional(&T::checkpoint, {.name = "checkpoint",
                                     .doc = "folder with config.json and safetensors, which set all other "
                                            "fields; empty: random initial weights"});
  return fields;
}

LlamaSpec llama_from_json(const Json& json, const std::string& where) {
  const LlamaSpec spec = llama_fields().read(json, "model", where);
  if (spec.checkpoint.empty()) {
    check_llama(spec, where);
  } else {
    for (const auto& [key, value] : json.items())
      if (key != "checkpoint")
        throw Error("model." + key + " would be ignored: the checkpoint '" + spec.checkpoint + "' sets it",
                    "leave out model." + key + ", or leave out model.checkpoint", where);
  }
  return spec;
}

Json to_json(const LlamaSpec& spec) {
  if (!spec.checkpoint.empty()) return {{"checkpoint", spec.checkpoint}};
  Json json = llama_fields().write(spec);
  json.erase("checkpoint");
  return json;
}
}  // namespace optrush
