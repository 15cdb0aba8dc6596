#include <CLI/CLI.hpp>
#include <memory>

#include "exchange/commands.h"
#include "exchange/exchange.h"

namespace optrush {
namespace {
void add_export(CLI::App& app, int& code) {
  struct Options {
    std::string spec, out;
  };
  auto options = std::make_shared<Options>();
  auto* exporting = app.add_subcommand("export", "write the initial state of a run, for other programs");
  exporting->add_option("--spec", options->spec, "RunSpec (JSON)")->required();
  exporting
      ->add_option("--out", options->out,
                   "folder: config.json, model.safetensors, tokens.safetensors, spec.json")
      ->required();
  exporting->callback([options, &code] { code = export_command(options->spec, options->out); });
}

void add_forward(CLI::App& app, int& code) {
  auto request = std::make_shared<ForwardRequest>();
  auto* forward = app.add_subcommand("forward", "write logits, loss and gradients of a Hugging Face folder");
  forward->add_option("--model", request->model, "folder with config.json and safetensors")->required();
  forward->add_option("--tokens", request->tokens, "safetensors with int64 input_ids (B, S)")->required();
  forward->add_option("--out", request->out, "safetensors to write: logits, loss, grad.NAME")->required();
  forward->add_flag("--gradients", request->gradients,
                    "also write the gradient of every trainable parameter");
  forward->add_option("--dtype", request->dtype, "type of the parameters: fp32, fp64 or bf16");
  forward->add_option("--device", request->device, "auto, cpu or cuda");
  forward->add_option("--plugin", request->plugins, "NAME[:key=value,...]; may be repeated");
  forward->add_option("--plugin-path", request->plugin_path, "folder with plugins; may be repeated")
      ->check(CLI::ExistingDirectory);
  forward->callback([request, &code] { code = forward_command(*request); });
}

void add_weights(CLI::App& app, int& code) {
  auto request = std::make_shared<WeightsRequest>();
  auto* weights = app.add_subcommand("weights", "write the trained weights of a run for other programs");
  weights->add_option("run", request->run, "folder of a run with a saved state")->required();
  weights
      ->add_option("out", request->out, "new folder in the format of Hugging Face, or of PEFT for an adapter")
      ->required();
  weights->add_flag("--merge", request->merge, "merge an adapter into the matrices of the model");
  weights->add_option("--dtype", request->dtype, "fp32, fp64 or bf16; default: the type in training")
      ->check(CLI::IsMember({"fp32", "fp64", "bf16"}));
  weights->callback([request, &code] { code = weights_command(*request); });
}
}  // namespace

void exchange::add_worker_commands(CLI::App& app, int& code) {
  add_export(app, code);
  add_forward(app, code);
  add_weights(app, code);
}
}  // namespace optrush
