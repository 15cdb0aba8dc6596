// The choice of experts: the K largest shares of a softmax (arXiv:1701.06538), or of sigmoids with a bias of
// the choice and groups of experts (arXiv:2412.19437, section 2.1.2).
#include <ATen/Functions.h>

#include <limits>
#include <tuple>

#include "model/operators.h"

namespace optrush::plain {
namespace {
/// The scores with -inf outside of the groups of experts that each token keeps.
Tensor in_kept_groups(const Tensor& scores_TE, const Router& form) {
  const Tensor grouped = scores_TE.unflatten(1, {form.groups, -1});  // (T, groups, E / groups)
  const Tensor of_groups = std::get<0>(at::topk(grouped, 2, -1)).sum(-1);
  const Tensor kept = std::get<1>(at::topk(of_groups, form.kept_groups, -1));
  const Tensor left = at::ones_like(of_groups, at::kBool).scatter(1, kept, 0);
  return grouped.masked_fill(left.unsqueeze(-1), -std::numeric_limits<double>::infinity()).flatten(1);
}

/// {scores, experts}, each (T, K).
std::tuple<Tensor, Tensor> chosen(const Tensor& logits_TE, const RoutingArgs& args) {
  const auto type = accumulate_type(logits_TE);
  const bool sigmoid = args.form.scores == RouterScores::sigmoid;
  const Tensor scores_TE = sigmoid ? at::sigmoid(logits_TE.to(type)) : at::softmax(logits_TE, -1, type);
  if (!args.bias.defined() && args.form.groups == 1) return at::topk(scores_TE, args.per_token, -1);
  Tensor choice_TE = scores_TE.detach();
  if (args.bias.defined()) choice_TE = choice_TE + args.bias.to(type);
  if (args.form.groups > 1) choice_TE = in_kept_groups(choice_TE, args.form);
  const Tensor experts_TK = std::get<1>(at::topk(choice_TE, args.per_token, -1));
  return {scores_TE.gather(1, experts_TK), experts_TK};
}
}  // namespace

Routed routed(const Tensor& logits_TE, const RoutingArgs& args) {
  auto [weights_TK, experts_TK] = chosen(logits_TE, args);
  if (args.normalize) weights_TK = weights_TK / weights_TK.sum(-1, /*keepdim=*/true);
  if (args.form.scale != 1) weights_TK = weights_TK * args.form.scale;
  return {weights_TK, experts_TK};
}
}  // namespace optrush::plain
