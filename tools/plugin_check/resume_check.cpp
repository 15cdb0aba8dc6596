#include "plugin_check/run_case.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "analysis/gate/gate.h"
#include "plugin_check/library_state.h"
#include "plugin_check/opening.h"
#include "train/state.h"
#include "train/trainer.h"

namespace optrush {
namespace {
Curve steps_of(Session& session) {
  return train(session, [](const Json&) {}).curve();
}

SavedState in_memory(Session& session, int64_t next_step) {
  const at::NoGradGuard no_grad;
  const EvaluatedParameters evaluated(session);
  std::multimap<std::string, StatePiece> pieces;
  for (const StatePiece& piece : state_to_save(session, next_step))
    pieces.emplace(piece.key, StatePiece{piece.key, piece.layout, piece.value.clone()});
  return [pieces = std::move(pieces)](const std::string& key) {
    std::vector<StatePiece> found;
    const auto [begin, end] = pieces.equal_range(key);
    for (auto piece = begin; piece != end; ++piece) found.push_back(piece->second);
    return found;
  };
}

/// Relative difference; NaN equals only NaN.
double difference_of(double a, double b) {
  if (std::isnan(a) != std::isnan(b)) return std::numeric_limits<double>::infinity();
  return a == b || std::isnan(a) ? 0 : std::abs(a - b) / std::abs(b);
}

/// The first parameter whose values differ by more than `tolerance`.
std::optional<std::string> first_different(Session& a, Session& b, double tolerance) {
  const at::NoGradGuard no_grad;
  const auto ours = a.data_parallel().shards(), theirs = b.data_parallel().shards();
  for (size_t i = 0; i < ours.size(); ++i) {
    const Tensor &one = ours[i].data, &other = theirs[i].data;
    if (at::equal(one, other)) continue;
    const double apart = (one - other).abs().max().item<double>();
    if (!(apart <= tolerance * other.abs().max().item<double>())) return ours[i].segments.front().param->name;
  }
  return std::nullopt;
}

/// Compares the steps after a state of `spec` with those of a run without an interruption.
void check_state_of(const CheckCase& c, const RunSpec& spec, const CheckContext& context, double tolerance) {
  const LibraryState before;
  const auto whole = open_case(c, spec, context);
  const int64_t made = spec.train.warmup + spec.train.steps;
  steps_of(*whole);
  const SavedState saved = in_memory(*whole, made);
  whole->resume_at(made);
  const Curve without = steps_of(*whole);

  const LibraryState as_at_first;
  const auto rest = open_run(spec, context);
  load_state(*rest, saved);
  const Curve with = steps_of(*rest);
  if (c.without_values) return;
  const auto compare = [&](const char* what, const std::vector<double>& got,
                           const std::vector<double>& expected) {
    for (size_t i = 0; i < expected.size(); ++i)
      if (!(difference_of(got.at(i), expected[i]) <= tolerance))
        throw Error(ErrorCode::wrong_result,
                    "a run resumed from the state after " + std::to_string(made) +
                        " steps trains differently: " + std::string(what) + " of step " +
                        std::to_string(i + 1) + " after it is " + Json(got[i]).dump() +
                        ", but without the interruption " + Json(expected[i]).dump(),
                    "list every tensor that a step reads in Optimizer::state(); register other state with "
                    "Recipe::keep()");
  };
  compare("the loss", with.losses, without.losses);
  compare("the gradient norm", with.norms, without.norms);
  if (const auto param = first_different(*rest, *whole, tolerance))
    throw Error(ErrorCode::wrong_result,
                "a run resumed from the state after " + std::to_string(made) +
                    " steps trains differently: " + std::to_string(made) + " steps after it '" + *param +
                    "' differs from the run without the interruption",
                "list every tensor that a step reads in Optimizer::state()");
}
}  // namespace

std::string check_resume(const CheckCase& c, const CheckContext& context) {
  // On a GPU, atomic additions sum in any order.
  const double tolerance =
      context.device.is_cpu() ? 0 : allowance_of(Effect::rounding, Arithmetic::reduced).norm;
  // The second number of steps has no factor in common with the first: no state is the initial one after
  // both.
  RunSpec shorter = c.spec;
  --shorter.train.warmup;
  std::string counts;
  for (const RunSpec& spec : {c.spec, shorter}) {
    check_state_of(c, spec, context, tolerance);
    if (c.without_values) return {};
    counts += (counts.empty() ? "" : " and ") + std::to_string(spec.train.warmup + spec.train.steps);
  }
  return "the steps after the states of " + counts + " steps are " +
         (tolerance == 0 ? "bit-equal to" : "equal to") + " those without the interruption";
}
}  // namespace optrush
