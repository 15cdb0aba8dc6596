#pragma once
#include <map>
#include <string>

#include "data/batches.h"
#include "support/training.h"

// Shared by the tests of fused projections and of recomputed MLPs.
namespace optrush::testing {
inline const PluginUse kCheckpointing = {"activation_checkpointing", Json::object()};

/// The loss and every gradient of the first step, by name.
inline std::map<std::string, Tensor> first_step(const RunSpec& spec) {
  Trained trained(spec);
  Session& session = trained.session();
  Batch batch = Batches(spec, session.model(), session.mesh(), at::kCPU).step(0).at(0);
  batch.token_count = static_cast<double>(batch.valid_tokens);
  session.prepare(batch);
  const Tensor loss = session.forward(0, batch, {});
  loss.backward();
  std::map<std::string, Tensor> found = {{"loss", loss.detach()}};
  for (const Param* param : session.params().all())
    if (param->trainable) found[param->name] = param->leaf.grad();
  return found;
}

}  // namespace optrush::testing
