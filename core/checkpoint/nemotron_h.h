#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/architectures.h"

namespace optrush {
/// NemotronHForCausalLM (arXiv:2504.03624). A layer of this class is x + f(norm(x)) with one f: Mamba 2,
/// attention, an MLP or experts. So a block of the model is one or two layers, and attention or Mamba 2
/// without an MLP behind it is a block of LlamaSpec::layers_without_mlp.
Architecture nemotron_h();

/// The name of a parameter with the number of its layer in the class: "model.layers.1.mlp.up_proj.weight" is
/// "model.layers.3.mixer.up_proj.weight", if the first block has two layers. Names outside of the blocks
/// stay.
std::string name_by_layer(const std::string& parameter, const std::vector<int64_t>& layers_without_mlp);
}  // namespace optrush
