#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/batch.h"

namespace optrush {
class Binder;
struct Param;

/// A place in the model that calls one operator: "model.layers.3.self_attn.q_proj". Paths are the module
/// names of Hugging Face. Plugins may append parameters in Event::meta_initialized.
struct Module {
  std::string path;
  /// linear, norm, add_norm, embedding, position, attention, swiglu, geglu, mlp, router, experts,
  /// shared_expert_gate, sinks, convolution, delta_rule, head_loss
  std::string role;
  int64_t layer = -1;  ///< index of its block
  std::vector<Param*>
      params;  ///< parameters of the plain operator (weight, bias), then those that plugins added

  /// The bias of a linear or a norm; null: it has none.
  Param* bias() const;
};

/// embed: tokens are in the batch, x is undefined, returns (B, S, D). block: (B, S, D) to (B, S, D). head:
/// (B, S, D) to the loss sum, or to logits if the batch has no labels. Where later layers read more than the
/// hidden state (LlamaSpec::carries), streams between units are wider, and each has its own width.
using UnitSignature = Tensor(const Tensor& x, const Batch&);
using UnitFunction = std::function<UnitSignature>;

enum class UnitRole : uint8_t {
  embed,
  block,
  attention,
  mlp,
  experts,  ///< a router and the MLPs between which it chooses
  mixture,  ///< experts beside an MLP that all tokens pass
  head
};
std::string_view to_string(UnitRole);

/// A part of the model that can be wrapped as a whole: embed, each block with its attention and mlp, head.
struct Unit {
  std::string path;  ///< "model.layers.3"
  UnitRole role = UnitRole::block;
  int64_t layer = -1;
  /// Tokens that pass it, of those that pass its parent; below 1 for an expert, on average.
  double share_of_tokens = 1;
  std::deque<Module> modules;  ///< its operators, without those of its children
  std::vector<std::unique_ptr<Unit>> children;
  /// Builds the plain function from resolved operators and children.
  std::function<UnitFunction(const Binder&)> build;

  /// The parameters of its modules and children, each once, in order of first use.
  std::vector<Param*> params() const;
};
}  // namespace optrush
