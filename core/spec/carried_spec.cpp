#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
int64_t LlamaSpec::kv_layer(int64_t layer) const {
  const int64_t own = n_layers - kv_shared_layers;
  if (layer < own) return layer;
  int64_t found = own - 1;
  while (found >= 0 && window_of(found) != window_of(layer)) --found;
  return found;
}

bool LlamaSpec::shares_kv(int64_t layer) const {
  for (int64_t reader = n_layers - kv_shared_layers; reader < n_layers; ++reader)
    if (reader == layer || kv_layer(reader) == layer) return true;
  return false;
}

void check_carried(const LlamaSpec& spec, const std::string& where) {
  const auto refuse = [&](const std::string& what, const std::string& cure) {
    throw Error(ErrorCode::invalid_value, what, cure, where);
  };
  const auto text = [](int64_t n) { return std::to_string(n); };
  const std::string shared = "model.kv_shared_layers (" + text(spec.kv_shared_layers) + ")";
  if (spec.kv_shared_layers >= spec.n_layers)
    refuse(shared + " leaves none of the " + text(spec.n_layers) + " layers with its own keys and values",
           "allowed values: 0 to " + text(spec.n_layers - 1));
  for (int64_t layer = 0; layer < spec.n_layers; ++layer)
    if (spec.kv_layer(layer) < 0)
      refuse(shared + ": layer " + text(layer) + " has " +
                 (spec.window_of(layer) != 0 ? "a window" : "full attention") +
                 ", but no layer with its own keys and values has",
             "share fewer layers, or change model.full_attention_layers");
  if (spec.per_layer_vocab() < spec.vocab_size)
    refuse("model.per_layer_vocab_size (" + text(spec.per_layer_vocab_size) +
               ") is below model.vocab_size (" + text(spec.vocab_size) + ")",
           "each token needs a row of this table: give at least " + text(spec.vocab_size) +
               ", or 0 for the same size");
}
}  // namespace optrush
