#include "training.h"

namespace optrush::testing {
RunSpec nano_spec(std::vector<PluginUse> plugins) {
  RunSpec spec;
  spec.model = validate_model(
      "llama",
      {{"vocab_size", 64}, {"dim", 32}, {"n_layers", 2}, {"n_heads", 4}, {"n_kv_heads", 2}, {"ffn_dim", 48}},
      "test");
  spec.train.micro_batch = 4;
  spec.train.seq_len = 16;
  spec.train.steps = 2;
  spec.train.warmup = 1;
  spec.train.lr = 1e-2;
  spec.device = "cpu";
  spec.plugins = std::move(plugins);
  spec.plugin_path = {build_folder() + "/plugins"};
  return spec;
}

Trained::Trained(const RunSpec& spec, const std::function<void(Recipe&)>& edit, at::Device device)
    : session_(RunSetup::open(spec, device, {}, [&](RunRecipe& recipe) {
        recipe.edit_as("test");
        if (edit) edit(recipe);
      })) {
  session_->connect();
  session_->declare();
  session_->make_ready();
}

Json Trained::train() {
  return to_json(optrush::train(session(), [](const Json&) {}));
}

Session& Trained::session() { return *session_; }

std::vector<double> losses(const Json& result) {
  std::vector<double> values;
  for (const auto& step : result["steps"]) values.push_back(step["loss"]);
  return values;
}
}  // namespace optrush::testing
