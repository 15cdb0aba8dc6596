#include "exchange/exchange.h"

#include <ATen/Functions.h>

#include "base/files.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/written_config.h"
#include "data/batches.h"
#include "data/token_source.h"
#include "io/safetensors.h"
#include "model/hugging_face.h"
#include "model/model.h"
#include "optrush/error.h"
#include "params/init.h"
#include "spec/spec_json.h"
#include "train/run_setup.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
Json config_of(const RunSpec& spec) {
  if (!spec.start.empty())
    throw Error(ErrorCode::unsupported,
                "this run continues from the state in '" + spec.start + "', which other programs cannot read",
                "convert the state with optrush weights, and use the result as model.checkpoint");
  if (spec.model_kind != "llama")
    throw Error(ErrorCode::unsupported,
                "a model of kind '" + spec.model_kind + "' cannot be written as a Hugging Face folder");
  const LlamaSpec llama = llama_from_json(spec.model, "the spec's model");
  return with_dtype(llama.checkpoint.empty() ? hugging_face_config(llama, spec.train.seq_len)
                                             : config_of_checkpoint(llama.checkpoint),
                    spec.train.dtype);
}

/// The spec without plugins, on one rank.
RunSpec plain(RunSpec spec) {
  spec.plugins.clear();
  spec.train.world_size = 1;
  return spec;
}

void write_parameters(const Session& session, const Storage& storage, const fs::path& file) {
  std::optional<Checkpoint> checkpoint;
  if (!session.model().checkpoint.empty()) checkpoint.emplace(session.model().checkpoint);
  NamedTensors values;
  for (const Param* param : session.params().all()) {
    const Tensor value =
        checkpoint ? checkpoint->read(*param) : initial_value(*param, session.spec().train.seed);
    values.emplace_back(param->name, stored_value(param->name, value, storage).to(param->dtype));
  }
  write_safetensors(file, tensors_of_file(std::move(values), storage));
}

/// Sequences per step, which depend on the plugins' accumulation and mesh.
int64_t sequences_of(const RunSpec& spec) {
  const auto planned = RunSetup::open(spec, at::kCPU, Ranks::planned(0, spec.train.world_size));
  return global_batch(planned->spec().train, planned->mesh());
}

void write_tokens(const Session& session, int64_t rows, const fs::path& file) {
  const RunSpec& spec = session.spec();
  if (only_epochs(spec.train))
    throw Error(ErrorCode::missing_value,
                "train.epochs alone ends this run, so its number of steps is not known",
                "give train.steps, at least the steps of the epochs");
  const int64_t steps = spec.train.warmup + spec.train.steps, length = spec.train.seq_len + 1;
  const auto source = open_training(spec, session.model().vocab_size);
  const Tensor tokens = at::empty({steps, rows, length}, at::kLong);
  for (int64_t sample = 0; sample < steps * rows; ++sample)
    source->sample(sample,
                   {tokens.mutable_data_ptr<int64_t>() + sample * length, static_cast<size_t>(length)});
  write_safetensors(file, {{"tokens", tokens}});
}
}  // namespace

int export_command(const fs::path& spec_file, const fs::path& out) {
  const RunSpec spec = run_spec_from_json(read_json(spec_file), spec_file.string());
  const Json config = config_of(spec);
  fs::create_directories(out);
  write_json(out / "spec.json", to_json(spec));
  write_json(out / "config.json", config);
  const auto session = RunSetup::open(plain(spec), at::kCPU);
  session->declare();
  write_parameters(*session, storage_of(config), out / "model.safetensors");
  write_tokens(*session, sequences_of(spec), out / "tokens.safetensors");
  return 0;
}
}  // namespace optrush
