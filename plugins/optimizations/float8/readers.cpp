#include "readers.h"

#include <algorithm>
#include <initializer_list>

#include "optrush/param.h"

namespace optrush::float8 {
namespace {
/// Whether all wraps of a slot are in these phases, or by this plugin.
bool wrapped_only_in(const SlotInfo& slot, std::initializer_list<Phase> phases) {
  return std::ranges::all_of(slot.wraps(), [&](const Edit& edit) {
    return edit.plugin == "float8" || std::ranges::find(phases, edit.phase) != phases.end();
  });
}

LinearGroup linears_of(const Unit& unit) {
  LinearGroup linears;
  for (const Module& module : unit.modules)
    if (module.role == "linear") linears.push_back(&module);
  return linears;
}

/// Whether the unit reads its input only in linears: heads of queries, keys and values, or one MLP.
bool reads_by_linears(const LlamaSpec& model, const Unit& unit) {
  if (!unit.children.empty()) return false;
  if (unit.role == UnitRole::attention)
    return !model.has_latents() && !model.has_linear_attention(unit.layer);
  return unit.role == UnitRole::mlp && !model.has_experts(unit.layer);
}
}  // namespace

Readers::Readers(const Recipe& recipe, const Run& run) {
  const auto& ops = recipe.ops;
  if (ops.mlp.edited()) return;
  const bool plain_linears = ops.linear.wraps().empty();
  const bool plain_units = ops.swiglu.wraps().empty() && ops.geglu.wraps().empty();
  // A plugin that keeps outputs for a recomputation may copy them, and parts of a product are other tensors.
  if (wrapped_only_in(ops.linear, {Phase::tensor, Phase::checkpoint}) &&
      wrapped_only_in(ops.swiglu, {Phase::checkpoint}) && wrapped_only_in(ops.geglu, {Phase::checkpoint}))
    for (const auto& unit : run.units()) add_products(*unit);
  product_read_once_ = plain_linears && plain_units;

  const bool plain_norms = wrapped_only_in(ops.norm, {}) && wrapped_only_in(ops.add_norm, {});
  if (!plain_linears || !plain_norms || recipe.spec().model_kind != "llama" ||
      !wrapped_only_in(recipe.unit, {Phase::checkpoint, Phase::offload, Phase::shard}))
    return;
  const LlamaSpec& model = llama_of(recipe.spec());
  if (model.carries()) return;
  for (const auto& unit : run.units())
    if (unit->role == UnitRole::block) add_norms(model, *unit);
}

const Module* Readers::after(const Module& gate) const {
  const auto found = after_.find(&gate);
  return found == after_.end() ? nullptr : found->second;
}

LinearGroup Readers::of_norm(const Module& norm) const {
  const auto found = of_norm_.find(&norm);
  return found == of_norm_.end() ? LinearGroup() : found->second;
}

void Readers::add_products(const Unit& unit) {
  const LinearGroup linears = linears_of(unit);
  if (unit.role == UnitRole::mlp && linears.size() == 3) after_[linears[0]] = linears[2];
  for (const auto& child : unit.children) add_products(*child);
}

/// Attention and MLP read the results of a block's norms of the residual stream, in this order.
void Readers::add_norms(const LlamaSpec& model, const Unit& block) {
  auto part = block.children.begin();
  for (const Module& module : block.modules) {
    if (module.role != "add_norm" || part == block.children.end()) continue;
    const Unit& reader = **part++;
    if (!reads_by_linears(model, reader)) continue;
    LinearGroup linears = linears_of(reader);
    std::erase_if(linears, [](const Module* linear) { return linear->params.at(0)->axes.at(1) != "model"; });
    if (linears.size() > 1) of_norm_[&module] = std::move(linears);
  }
}
}  // namespace optrush::float8
