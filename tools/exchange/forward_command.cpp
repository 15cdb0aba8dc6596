#include "exchange/exchange.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iostream>
#include <iterator>

#include "io/safetensors.h"
#include "machine/stand_in.h"
#include "optrush/error.h"
#include "train/run_setup.h"
#include "worker/device.h"

namespace optrush {
namespace {
using Named = std::vector<std::pair<std::string, Tensor>>;

Tensor read_tokens(const std::filesystem::path& path) {
  Tensor tokens = SafetensorsFile(path).read("input_ids");
  if (tokens.dim() != 2 || tokens.scalar_type() != at::kLong || tokens.size(0) < 1 || tokens.size(1) < 2)
    throw Error(ErrorCode::invalid_value, "'input_ids' must be int64 of shape (B, S) with S of at least 2",
                {}, path.string());
  return tokens;
}

void check_range(const Tensor& tokens, int64_t vocab_size, const std::filesystem::path& path) {
  const auto smallest = tokens.min().item<int64_t>(), largest = tokens.max().item<int64_t>();
  if (smallest < 0 || largest >= vocab_size)
    throw Error(ErrorCode::invalid_value,
                "'input_ids' has tokens from " + std::to_string(smallest) + " to " + std::to_string(largest) +
                    ", but the model's tokens are 0 to " + std::to_string(vocab_size - 1),
                "use tokens of this model's tokenizer", path.string());
}

RunSpec spec_of(const ForwardRequest& request, const Tensor& tokens) {
  RunSpec spec;
  spec.purpose = Purpose::probe;
  spec.model = {{"checkpoint", request.model}};
  spec.train.micro_batch = tokens.size(0);
  spec.train.seq_len = tokens.size(1);
  spec.train.dtype = request.dtype;
  spec.device = request.device;
  spec.plugin_path = request.plugin_path;
  const auto catalogue = Catalogue::find(request.plugin_path);
  for (const auto& plugin : request.plugins) spec.plugins.push_back(parse_plugin_argument(plugin, catalogue));
  return spec;
}

/// The micro-batch that training would make of these tokens, without the token after the last one.
Batch batch_of(const Tensor& tokens) {
  const int64_t rows = tokens.size(0), length = tokens.size(1);
  Batch batch;
  batch.tokens = tokens;
  batch.labels = at::cat({tokens.slice(1, 1), at::full({rows, 1}, -100, tokens.options())}, 1);
  batch.positions = at::arange(length, tokens.options()).expand({rows, length});
  batch.valid_tokens = rows * (length - 1);
  batch.valid_sequences = rows;
  batch.token_count = static_cast<double>(batch.valid_tokens);
  batch.filled_count = static_cast<double>(batch.filled_positions());
  batch.sequence_count = static_cast<double>(rows);
  return batch;
}

Tensor forward(const Session& session, const Batch& batch) {
  Tensor x;
  for (int64_t chunk = 0; chunk < std::ssize(session.chunks()); ++chunk) x = session.forward(chunk, batch, x);
  return x;
}

/// The gradient of every trainable parameter in its full shape, without the loss scale.
Named gradients(Session& session, const Tensor& loss) {
  auto& parallel = session.data_parallel();
  const Tensor scale = session.loss_gradient(loss);
  parallel.before_backward(loss, /*last_microbatch=*/true);
  loss.backward(scale);
  parallel.finish();
  const at::NoGradGuard no_grad;
  Named named;
  for (const Shard& shard : parallel.shards())
    for (const Segment& segment : shard.segments) {
      if (!shard.grad.defined())
        throw Error(ErrorCode::invalid_plugin,
                    "the backward returned no gradient of '" + segment.param->name + "'");
      const Tensor flat = Shard::part(shard.grad, segment);
      named.emplace_back("grad." + segment.param->name,
                         (flat / scale.to(flat.scalar_type())).view(segment.param->shape));
    }
  return named;
}

Named evaluate(Session& session, Batch batch, bool with_gradients) {
  session.prepare(batch);
  Batch unlabelled = batch;
  unlabelled.labels = Tensor();
  Named named;
  {
    const at::NoGradGuard no_grad;
    session.data_parallel().before_forward();
    named.emplace_back("logits", forward(session, unlabelled));
  }
  const at::AutoGradMode mode(with_gradients);
  session.data_parallel().before_forward();
  const Tensor loss = forward(session, batch);
  named.emplace_back("loss", loss);
  if (with_gradients) std::ranges::move(gradients(session, loss), std::back_inserter(named));
  return named;
}
}  // namespace

int forward_command(const ForwardRequest& request) {
  const Tensor tokens = read_tokens(request.tokens);
  const RunSpec spec = spec_of(request, tokens);
  const at::Device device = open_device(spec.device);
  if (is_stand_in(device_name(device))) std::cout << kNothingComputed << "\n";
  const auto opened = RunSetup::open(spec, device);
  RunSetup& session = *opened;
  const RunRecipe& recipe = session.recipe();
  session.connect();
  session.declare();
  check_range(tokens, session.model().vocab_size, request.tokens);
  session.make_ready();
  session.begin_step(0);
  const Named results = evaluate(session, batch_of(tokens.to(device)), request.gradients);
  recipe.fire(Event::step_end, session);
  recipe.fire(Event::finished, session);
  write_safetensors(request.out, results);
  for (const auto& note : session.log().notes()) std::cout << note << "\n";
  std::cout << "loss " << Json(results.at(1).second.item<double>()).dump() << ", " << results.size()
            << " tensors in " << request.out.string() << "\n";
  return 0;
}
}  // namespace optrush
