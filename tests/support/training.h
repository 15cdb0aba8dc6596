#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "folders.h"
#include "optrush/error.h"
#include "spec/spec_json.h"
#include "train/run_setup.h"
#include "train/trainer.h"

namespace optrush::testing {
// Out of line, because inline calls of the JSON library are instantiated in every file.

/// A Llama with two blocks on seeded random tokens, small enough for hundreds of runs in a test.
RunSpec nano_spec(std::vector<PluginUse> plugins = {});

/// A run that is ready to train, opened as by the worker. `edit` may add edits.
class Trained {
 public:
  explicit Trained(const RunSpec& spec, const std::function<void(Recipe&)>& edit = {},
                   at::Device device = at::kCPU);
  Json train();
  Session& session();

 private:
  std::unique_ptr<RunSetup> session_;
};

std::vector<double> losses(const Json& result);
}  // namespace optrush::testing
