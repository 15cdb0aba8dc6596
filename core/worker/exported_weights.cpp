#include "worker/exported_weights.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <map>

#include "model/binder.h"
#include "plugin/description.h"
#include "recipe/evaluation_scope.h"

namespace optrush {
namespace {
const SafetensorsMetadata kOfPyTorch = {{"format", "pt"}};  // transformers reads only files with this entry

/// The matrix with what plugins added: the output of the operator for the identity matrix.
Tensor merged_matrix(const Binder& bind, const Module& module) {
  const Param& weight = *module.params.at(0);
  const auto options = at::TensorOptions(weight.dtype).device(weight.leaf.device());
  return bind.product(module)(at::eye(weight.shape.at(1), options)).t();
}
}  // namespace

RunSpec reduced_to(RunSpec spec, const std::set<Effect>& effects) {
  const Catalogue catalogue = Catalogue::find(spec.plugin_path);
  std::erase_if(spec.plugins, [&](const PluginUse& use) {
    return !effects.contains(catalogue.at(use.name).effect_with(use.options));
  });
  spec.train.world_size = 1;
  spec.train.global_batch = 0;
  spec.validate.every = 0;
  return spec;
}

std::set<std::string> own_parameters(RunSpec spec) {
  spec.plugins.clear();
  spec.data = {};  // some kinds of data require plugins
  const auto plain = RunSetup::open(spec, at::kCPU);
  plain->declare();
  std::set<std::string> names;
  for (const Param* param : plain->params().all()) names.insert(param->name);
  return names;
}

std::unique_ptr<RunSetup> session_to_export(RunSpec spec, at::Device device) {
  if (spec.train.dtype != "fp64") spec.train.dtype = "fp32";
  auto session = RunSetup::open(spec, device);
  session->connect();
  session->declare();
  session->make_ready();
  return session;
}

bool has_adapter(const Session& session, const std::set<std::string>& own) {
  return std::ranges::any_of(session.params().all(),
                             [&](const Param* param) { return !own.contains(param->name); });
}

NamedTensors model_weights(Session& session, const std::set<std::string>& own) {
  const EvaluationScope evaluation;
  const Binder bind(session.recipe());
  std::map<std::string, Tensor> weights;
  for (const Param* param : session.params().all())
    if (own.contains(param->name)) weights[param->name] = param->value();
  for (const Module* module : session.modules("linear")) {
    const size_t plain = module->bias() == nullptr ? 1 : 2;
    if (module->params.size() > plain) weights[module->path + ".weight"] = merged_matrix(bind, *module);
  }
  return {weights.begin(), weights.end()};
}

NamedTensors adapter_weights(const Session& session, const std::set<std::string>& own) {
  NamedTensors weights;
  for (const Param* param : session.params().all())
    if (param->trainable || !own.contains(param->name))
      weights.emplace_back("base_model.model." + param->name, param->value());
  return weights;
}

SafetensorsContent weights_content(NamedTensors weights, const std::string& dtype, const Storage& storage) {
  for (auto& [name, tensor] : weights) {
    const bool keeps_bits = name.ends_with("correction_bias");  // rounding would change the choice of experts
    tensor = stored_value(name, tensor, storage);
    if (!keeps_bits || dtype == "fp64") tensor = tensor.to(parse_dtype(dtype));
  }
  return SafetensorsContent(tensors_of_file(std::move(weights), storage), kOfPyTorch);
}
}  // namespace optrush
