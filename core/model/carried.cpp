#include "model/carried.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <vector>

namespace optrush {
namespace {
/// 0: a window; 1: full attention.
size_t kind_of(const LlamaSpec& spec, int64_t layer) { return spec.window_of(layer) != 0 ? 0 : 1; }
}  // namespace

CarriedStream::CarriedStream(const LlamaSpec& spec, int64_t layer)
    : in_(widths_at(spec, layer)), out_(widths_at(spec, layer + 1)), kind_(kind_of(spec, layer)) {}

CarriedStream::Widths CarriedStream::widths_at(const LlamaSpec& spec, int64_t layer) {
  Widths widths = {spec.dim};
  if (layer < spec.n_layers) {
    widths[1] = spec.per_layer_input_dim;
    widths[2] = spec.per_layer_input_dim * (spec.n_layers - layer - 1);
  }
  for (int64_t reader = std::max(layer, spec.n_layers - spec.kv_shared_layers); reader < spec.n_layers;
       ++reader)
    if (spec.kv_layer(reader) < layer)
      widths.at(3 + kind_of(spec, reader)) = 2 * spec.kv_heads(reader) * spec.head_size(reader);
  return widths;
}

Carried CarriedStream::split(const Tensor& stream) const {
  if (stream.size(-1) == in_[0]) return {.hidden_BSD = stream};
  std::vector<int64_t> widths;
  std::ranges::copy_if(in_, std::back_inserter(widths), [](int64_t width) { return width != 0; });
  const std::vector<Tensor> split = stream.split_with_sizes(widths, -1);
  Carried parts;
  auto next = split.begin();
  Tensor* const all[] = {&parts.hidden_BSD, &parts.input_BSP, &parts.inputs_BSC, &parts.keys_values[0],
                         &parts.keys_values[1]};
  for (size_t i = 0; i < in_.size(); ++i)
    if (in_.at(i) != 0) *all[i] = *next++;
  parts.hidden_BSD = parts.hidden_BSD.contiguous();
  if (in_[1] != 0) parts.input_BSP = parts.input_BSP.contiguous();
  return parts;
}

Tensor CarriedStream::joined(const Carried& parts) const {
  std::vector<Tensor> kept = {parts.hidden_BSD};
  if (parts.inputs_BSC.defined()) kept.push_back(parts.inputs_BSC);
  for (size_t kind = 0; kind < parts.keys_values.size(); ++kind)
    if (out_.at(3 + kind) != 0) kept.push_back(parts.keys_values.at(kind));
  return kept.size() == 1 ? kept.front() : at::cat(kept, -1);
}
}  // namespace optrush
