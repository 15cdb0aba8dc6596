#include "train/validation.h"

#include <ATen/Functions.h>

#include <chrono>
#include <cmath>

#include "base/seconds_since.h"
#include "base/text.h"
#include "optrush/advanced/saved_tensors.h"
#include "optrush/host/resolve.h"
#include "recipe/evaluation_scope.h"
#include "train/train_step.h"

namespace optrush {
Validation::Validation(Session& session, Data data)
    : session_(session),
      data_(std::move(data)),
      loss_(session.recipe().evaluation.resolve({}, [&session](const Batch& batch) {
        session.data_parallel().before_forward();
        return session.forward(0, batch, {});
      })) {}

ValidationPoint Validation::point(int64_t done, int64_t step) const {
  const auto start = std::chrono::steady_clock::now();
  const EvaluationScope evaluation;
  // Restores the generators at the end.
  const RandomState host(at::kCPU), device(session_.device());
  const RandomState::Rewound host_afterwards(host), device_afterwards(device);
  const double mean = loss(data_(session_.step())).item<double>();
  if (!std::isfinite(mean))
    throw Error(ErrorCode::diverged, "the validation loss is not finite after " + counted(done, "step"),
                "check validate.data and the precision of this rung");
  return {.step = step, .loss = mean, .seconds = seconds_since(start)};
}

Tensor Validation::loss(std::vector<Batch> batches) const {
  const EvaluationScope evaluation;
  const auto not_of_a_step = session_.groups().bookkeeping();
  const EvaluatedParameters evaluated(session_);
  count_step(session_, batches);
  Tensor sum;
  for (Batch& batch : batches) {
    if (!batch.cos.defined()) session_.prepare(batch);
    const Tensor part = loss_(batch).to(at::kDouble);
    sum = sum.defined() ? sum + part : part;
  }
  // A step casts again, because these copies were made without gradients.
  for (const Param* param : session_.params().all()) param->compute_copy.drop();
  return global_loss(session_, sum);
}

void Validation::check(const Recipe& recipe) {
  if (const auto& owner = recipe.data.base().plugin; recipe.data.edited() && owner != "plain")
    throw Error(
        ErrorCode::unsupported,
        "validate: plugin '" + owner + "' provides the training data, so held-out data are not available",
        "remove it, or leave out validate");
  const auto& stages = recipe.stages;
  if (stages.edited())
    throw Error(ErrorCode::unsupported,
                "validate: plugin '" +
                    (stages.wraps().empty() ? stages.base().plugin : stages.wraps().front().plugin) +
                    "' splits the model into stages, which cannot run a validation",
                "remove it, or leave out validate");
}
}  // namespace optrush
