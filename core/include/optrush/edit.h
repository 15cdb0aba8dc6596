#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optrush {
/// Nesting order of the wraps around a base, innermost first, the same in every slot. It is a property of an
/// edit, not of a plugin: tensor parallelism edits linear, embedding and head_loss in different phases.
enum class Phase : uint8_t {
  base,
  quantize,
  adapter,
  tensor,
  context,
  compile,
  checkpoint,
  offload,
  shard,
  pipeline,
  precision,
  gradients,
  optimizer,
  capture,
  prefetch,
  measure
};
std::string_view to_string(Phase);

/// What a base can do beyond the signature of its slot. Plugins that belong together may define their own.
struct Feature {
  explicit constexpr Feature(const char* name) : name(name) {}
  std::string_view name;
  bool operator==(const Feature&) const = default;
};

/// Features of the model, the host and shipped plugins. optrush/ops.h has the contracts of operators.
namespace feature {
inline constexpr Feature fp64{"fp64"};                ///< exact in double precision
inline constexpr Feature lse{"lse"};                  ///< attention returns its log-sum-exp
inline constexpr Feature segments{"segments"};        ///< attention within the documents of a packed sequence
inline constexpr Feature window{"window"};            ///< attention to the last positions
inline constexpr Feature alibi{"alibi"};              ///< attention with a bias for the distance
inline constexpr Feature soft_cap{"soft_cap"};        ///< capped scores or logits
inline constexpr Feature value_width{"value_width"};  ///< attention to values of another width
inline constexpr Feature geglu{"geglu"};              ///< an MLP with an activation other than SiLU
inline constexpr Feature ungated{"ungated"};          ///< an MLP without a gate
inline constexpr Feature biases{"biases"};            ///< an MLP or a convolution with biases
inline constexpr Feature uncorrected{"uncorrected"};  ///< a delta rule without the correction of values
inline constexpr Feature adapters{"adapters"};        ///< calls the parts that it gets, so their edits stay
inline constexpr Feature vocabulary{"vocabulary"};    ///< a loss over a part of the vocabulary
inline constexpr Feature plain_products{"plain_products"};      ///< a product with the module's own matrix
inline constexpr Feature own_kernel{"own_kernel"};              ///< a kernel that a compiler leaves out
inline constexpr Feature longest{"longest"};                    ///< rows padded to the longest document
inline constexpr Feature rounds_by_chance{"rounds_by_chance"};  ///< an update that draws its rounding
inline constexpr Feature deferred_weight_gradients{
    "deferred_weight_gradients"};  ///< gradients that arrive after the backward
}  // namespace feature

/// How a compiler traces a function. A tracer sees only calls of ATen.
enum class Trace : uint8_t {
  opaque,  ///< raw kernel, collective, host state: not traceable; the plain operator is traced instead
  aten,    ///< only ATen calls; autograd may derive the backward
  pair     ///< a Differentiable: its forward and backward are kept
};

struct Traits {
  Trace trace = Trace::opaque;
  bool capturable = false;           ///< no host synchronization; can be part of a CUDA graph
  std::vector<Feature> offers = {};  ///< what a base does beyond the signature, for demand()
  /// Whether a step with the edit can run on tensors without values (optrush/forecast.h). Default: true for
  /// wraps and for bases that are not opaque.
  std::optional<bool> predictable = {};

  bool has(const Feature& feature) const { return std::ranges::find(offers, feature) != offers.end(); }
};

/// One edit of a slot, as listed in a plan.
struct Edit {
  Phase phase = Phase::base;
  std::string plugin;
  Traits traits;
  /// The order of wraps around a base, of events and of scopes. It does not depend on the order of the edits.
  bool operator<(const Edit& other) const {
    return std::pair(phase, std::string_view(plugin)) <
           std::pair(other.phase, std::string_view(other.plugin));
  }
};

/// True while a compiler traces the calling thread.
bool tracing();
}  // namespace optrush
